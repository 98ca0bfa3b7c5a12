"""Advancing: events and the checkpoint behind them go into the rows together, or not at all.

The caller brings the transaction. What the database refuses is found by folding the same events
one by one, so that a value too big for a column stops one session like any other poison.
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
    """Where a build has come to, and what happened on the way."""

    checkpoint: Checkpoint
    poisons: Sequence[Poison]


async def advance(
    connection: AsyncConnection, before: Checkpoint, events: Sequence[Arrived]
) -> Advanced | None:
    """Fold the events behind `before`; none, and nothing written, when it was moved meanwhile."""
    last = events[-1].raw
    digest = digest_of(last.stored)
    after = await checkpoints.moved(connection, before, last.stream_sequence, digest)
    if after is None:
        return None
    return Advanced(after, await keep(connection, after.build, events))


async def keep(
    connection: AsyncConnection, build: int, events: Sequence[Arrived]
) -> Sequence[Poison]:
    """Fold events into the rows of a build, and give those that were set aside."""
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
    # A savepoint: what is refused must not end the transaction that the checkpoint moves in.
    savepoint = await connection.begin_nested()
    try:
        tails = await _tails(connection, build, owners)
        halted = await quarantine.halted_among(connection, build, owners)
        folded = fold(events, tails, halted, refused)
        await write(connection, build, folded.changes)
    except Exception as error:
        # Anything else ends the transaction, and SQLite has done so itself when its disk is full.
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
