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

from turnlog.events.content import compute_digest
from turnlog.projections.store.engine import is_refused_value
from turnlog.projections.store.schema.read_model_tables import SESSIONS
from turnlog.projections.store.write import projection_positions, stopped_sessions
from turnlog.projections.store.write.projection_positions import ProjectionPosition
from turnlog.projections.store.write.quarantining_fold import (
    DecodedEvent,
    PoisonEvent,
    SessionOwner,
    SessionTail,
    decode_raw_event,
    fold_events,
)
from turnlog.projections.store.write.row_changes import write_changes


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The new position of a build, and the sessions that were stopped."""

    checkpoint: ProjectionPosition
    poisons: Sequence[PoisonEvent]


async def apply_batch(
    connection: AsyncConnection, before: ProjectionPosition, events: Sequence[DecodedEvent]
) -> ApplyResult | None:
    """Fold the events after `before`.

    Return None, with nothing written, if the position has moved meanwhile.
    """
    last = events[-1].raw
    digest = compute_digest(last.stored)
    after = await projection_positions.move_position(
        connection, before, last.stream_sequence, digest
    )
    if after is None:
        return None
    return ApplyResult(after, await fold_into_build(connection, after.build, events))


async def fold_into_build(
    connection: AsyncConnection, build: int, events: Sequence[DecodedEvent]
) -> Sequence[PoisonEvent]:
    """Fold events into the rows of a build, and return those that stopped their sessions."""
    try:
        return await _fold_in_savepoint(connection, build, events, {})
    except Exception as error:
        if not is_refused_value(error):
            raise
    return [p for event in events for p in await _fold_single_event(connection, build, event)]


async def _fold_single_event(
    connection: AsyncConnection, build: int, event: DecodedEvent
) -> Sequence[PoisonEvent]:
    try:
        return await _fold_in_savepoint(connection, build, [event], {})
    except Exception as error:
        if not is_refused_value(error):
            raise
        reason = f"the database refuses its values ({type(error).__name__})"
    return await _fold_in_savepoint(connection, build, [event], {event.raw.stream_sequence: reason})


async def _fold_in_savepoint(
    connection: AsyncConnection,
    build: int,
    events: Sequence[DecodedEvent],
    refused: Mapping[int, str],
) -> Sequence[PoisonEvent]:
    owners = {event.owner for event in events}
    # A savepoint, so that a refused value does not end the transaction that moves the position.
    savepoint = await connection.begin_nested()
    try:
        tails = await _read_tails(connection, build, owners)
        halted = await stopped_sessions.find_stopped_among(connection, build, owners)
        folded = fold_events(events, tails, halted, refused)
        await write_changes(connection, build, folded.changes)
    except Exception as error:
        # Any other error ends the transaction; SQLite does so itself when its disk is full.
        if is_refused_value(error):
            await savepoint.rollback()
        raise
    await savepoint.commit()
    return folded.poisons


async def _read_tails(
    connection: AsyncConnection, build: int, owners: Collection[SessionOwner]
) -> dict[SessionOwner, SessionTail]:
    rows = SESSIONS.c
    found = select(rows.tenant, rows.session, rows.last_sequence, rows.last_hash).where(
        rows.build == build, tuple_(rows.tenant, rows.session).in_(owners)
    )
    return {
        (row.tenant, row.session): SessionTail(row.last_sequence, row.last_hash)
        for row in await connection.execute(found)
    }


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay."""

    events: int
    """How many events were folded again."""
    poison: PoisonEvent | None
    """The event that stopped the session again."""


async def replay_session(connection: AsyncConnection, tenant: str, session: str) -> ReplayResult:
    """Fold the quarantined events of a stopped session; does nothing if there are none."""
    live = await projection_positions.lock_active_position(connection)
    if live is None:
        return ReplayResult(0, None)
    raws = await stopped_sessions.release_events(connection, live.build, (tenant, session))
    if not raws:
        return ReplayResult(0, None)
    poisons = await fold_into_build(connection, live.build, [decode_raw_event(raw) for raw in raws])
    return ReplayResult(len(raws), poisons[0] if poisons else None)
