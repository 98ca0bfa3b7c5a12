"""Applies batches of events: rows and projection position change in one transaction, or not at all.

The caller opens the transaction. If the database refuses a batch, its events are folded one by one,
so that a value that does not fit a column stops only one session.

A stopped session can be replayed after a fix: its quarantined events are folded in their order. The
position is locked meanwhile, so that a new event of that session is folded after them. An event
that fails again returns to quarantine with its new reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.events.content import digest_of
from turnlog.projections.store import checkpoints, quarantine
from turnlog.projections.store.checkpoints import Checkpoint
from turnlog.projections.store.engine import refuses
from turnlog.projections.store.fold import Arrived, Owner, Poison, Tail, fold
from turnlog.projections.store.tables import SESSIONS
from turnlog.projections.store.writing import write


@dataclass(frozen=True, slots=True)
class Advanced:
    """The new position of a build, and the sessions that were stopped."""

    checkpoint: Checkpoint
    poisons: Sequence[Poison]


async def advance(
    connection: AsyncConnection, before: Checkpoint, events: Sequence[Arrived]
) -> Advanced | None:
    """Fold the events after `before`.

    Return None, with nothing written, if the position has moved meanwhile.
    """
    last = events[-1].raw
    digest = digest_of(last.stored)
    after = await checkpoints.moved(connection, before, last.stream_sequence, digest)
    if after is None:
        return None
    return Advanced(after, await keep(connection, after.build, events))


async def keep(
    connection: AsyncConnection, build: int, events: Sequence[Arrived]
) -> Sequence[Poison]:
    """Fold events into the rows of a build, and return those that stopped their sessions."""
    try:
        return await _kept(connection, build, events, {})
    except Exception as error:
        if not refuses(error):
            raise
    return [p for event in events for p in await _kept_alone(connection, build, event)]


async def _kept_alone(connection: AsyncConnection, build: int, event: Arrived) -> Sequence[Poison]:
    try:
        return await _kept(connection, build, [event], {})
    except Exception as error:
        if not refuses(error):
            raise
        reason = f"the database refuses its values ({type(error).__name__})"
    return await _kept(connection, build, [event], {event.raw.stream_sequence: reason})


async def _kept(
    connection: AsyncConnection,
    build: int,
    events: Sequence[Arrived],
    refused: Mapping[int, str],
) -> Sequence[Poison]:
    owners = {event.owner for event in events}
    # A savepoint, so that a refused value does not end the transaction that moves the position.
    savepoint = await connection.begin_nested()
    try:
        tails = await _tails(connection, build, owners)
        halted = await quarantine.halted_among(connection, build, owners)
        folded = fold(events, tails, halted, refused)
        await write(connection, build, folded.changes)
    except Exception as error:
        # Any other error ends the transaction; SQLite does so itself when its disk is full.
        if refuses(error):
            await savepoint.rollback()
        raise
    await savepoint.commit()
    return folded.poisons


async def _tails(
    connection: AsyncConnection, build: int, owners: Collection[Owner]
) -> dict[Owner, Tail]:
    rows = SESSIONS.c
    found = select(rows.tenant, rows.session, rows.last_sequence, rows.last_hash).where(
        rows.build == build, tuple_(rows.tenant, rows.session).in_(owners)
    )
    return {
        (row.tenant, row.session): Tail(row.last_sequence, row.last_hash)
        for row in await connection.execute(found)
    }
