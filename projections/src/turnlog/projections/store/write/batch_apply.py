"""Applies batches of events: rows and projection position change in one transaction, or not at all.

The caller opens the transaction. If the database refuses a batch, its events are folded one by one,
so that a value that does not fit a column stops only one session.

A stopped session can be replayed after a fix: its quarantined events are folded in their order. The
position is locked meanwhile, so that a new event of that session is folded after them. An event
that fails again returns to quarantine with its new reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, delete, select, tuple_

from turnlog.events.content import compute_digest
from turnlog.events.store.ports import RawEvent
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.engine import is_refused_value
from turnlog.projections.store.schema.read_model_tables import ROW_TABLES, SESSIONS, STRAY_MESSAGES
from turnlog.projections.store.write import projection_positions, stopped_sessions
from turnlog.projections.store.write.changed_hours import build_hour_marks
from turnlog.projections.store.write.projection_positions import ProjectionPosition
from turnlog.projections.store.write.quarantining_fold import (
    PoisonEvent,
    SessionEnds,
    SessionOwner,
    SessionTail,
    StrayMessage,
    decode_raw_event,
    fold_events,
    parse_owner,
)
from turnlog.projections.store.write.row_changes import build_statements, run_statements


@dataclass(frozen=True, slots=True)
class FoldedBatch:
    """What a batch of events was folded to."""

    poisons: Sequence[PoisonEvent]
    strays: Sequence[StrayMessage]
    traceparents: frozenset[str]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The new position of a build, and what was folded on the way there."""

    checkpoint: ProjectionPosition
    batches: Sequence[FoldedBatch]
    """One, or one for each event if the database refused a value among them."""

    @property
    def poisons(self) -> list[PoisonEvent]:
        """The events that stopped their sessions."""
        return [poison for batch in self.batches for poison in batch.poisons]

    @property
    def strays(self) -> list[StrayMessage]:
        """The messages that are no events."""
        return [stray for batch in self.batches for stray in batch.strays]


def apply_batch(
    connection: Connection,
    before: ProjectionPosition,
    raws: Sequence[RawEvent],
) -> ApplyResult | None:
    """Fold the events after `before`; None, with nothing written, if the position has moved."""
    last = raws[-1]
    digest = compute_digest(last.stored)
    after = projection_positions.move_position(connection, before, last.stream_sequence, digest)
    if after is None:
        return None
    return ApplyResult(after, _write_events(connection, after.build, raws))


class UnchainedEvents(Exception):
    """Events do not follow the rows, so these may come from another log."""


def apply_chained_batch(
    connection: Connection,
    before: ProjectionPosition,
    raws: Sequence[RawEvent],
) -> ApplyResult | None:
    """Apply a batch; raises `UnchainedEvents`, and nothing is committed."""
    step = apply_batch(connection, before, raws)
    if step and not all(poison.is_chained for poison in step.poisons):
        raise UnchainedEvents
    return step


async def rebuild_session(
    connection: AsyncConnection, tenant: str, session: str, raws: Sequence[RawEvent]
) -> None:
    """Make the rows of a session again from its events, as they can be read now.

    `raws` are all of its events. Those behind the position of a build are folded into it later; a
    build that is under way may have read the others before.
    """
    builds = await projection_positions.lock_positions(connection)
    for table in (each for each in ROW_TABLES if each is not STRAY_MESSAGES):
        own = and_(table.c.tenant == tenant, table.c.session == session)
        await connection.execute(delete(table).where(own))
    for each in builds:
        if folded := [raw for raw in raws if raw.stream_sequence <= each.position]:
            await connection.run_sync(_write_events, each.build, folded)


def _read_session_ends(
    connection: Connection, build: int, owners: Collection[SessionOwner]
) -> SessionEnds:
    """Return how far these sessions are folded into the rows of a build."""
    halted = stopped_sessions.find_stopped_among(connection, build, owners)
    return SessionEnds(_read_tails(connection, build, owners), halted)


def _write_events(
    connection: Connection,
    build: int,
    raws: Sequence[RawEvent],
) -> Sequence[FoldedBatch]:
    try:
        return [_write_in_savepoint(connection, build, raws, {})]
    except Exception as error:
        if not is_refused_value(error):
            raise
    return [_write_single_event(connection, build, raw) for raw in raws]


def _write_single_event(connection: Connection, build: int, raw: RawEvent) -> FoldedBatch:
    try:
        return _write_in_savepoint(connection, build, [raw], {})
    except Exception as error:
        if not is_refused_value(error):
            raise
        reason = f"the database refuses its values ({type(error).__name__})"
    return _write_in_savepoint(connection, build, [raw], {raw.stream_sequence: reason})


def _write_in_savepoint(
    connection: Connection,
    build: int,
    raws: Sequence[RawEvent],
    refused: Mapping[int, str],
) -> FoldedBatch:
    """Fold and write events; each is decoded and folded before the next one.

    If all were decoded first, they would take twice as long, because what a batch decodes to does
    not fit a processor's cache.
    """
    # A savepoint, so that a refused value does not end the transaction that moves the position.
    savepoint = connection.begin_nested()
    try:
        owners = {parse_owner(raw.subject) for raw in raws}
        ends = _read_session_ends(connection, build, owners)
        folded = fold_events(map(decode_raw_event, raws), ends, refused)
        dialect = connection.dialect.name
        run_statements(connection, build_statements(folded.changes, build, dialect))
        run_statements(connection, build_hour_marks(folded.changes, build, dialect))
    except Exception as error:
        # Any other error ends the transaction; SQLite does so itself when its disk is full.
        if is_refused_value(error):
            savepoint.rollback()
        raise
    savepoint.commit()
    return FoldedBatch(folded.poisons, folded.strays, folded.traceparents)


def _read_tails(
    connection: Connection, build: int, owners: Collection[SessionOwner]
) -> dict[SessionOwner, SessionTail]:
    rows = SESSIONS.c
    found = select(rows.tenant, rows.session, rows.last_sequence, rows.last_hash).where(
        rows.build == build, tuple_(rows.tenant, rows.session).in_(owners)
    )
    return {
        (row.tenant, row.session): SessionTail(row.last_sequence, row.last_hash)
        for row in connection.execute(found)
    }


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay."""

    events: int
    """How many events were folded again."""
    poison: PoisonEvent | None
    """The event that stopped the session again."""


AttachKeys = Callable[[Sequence[RawEvent]], Awaitable[Sequence[RawEvent]]]
"""Return events with the keys of those that are sealed."""


async def replay_session(
    connection: AsyncConnection, tenant: str, session: str, attach_keys: AttachKeys | None = None
) -> ReplayResult:
    """Fold the quarantined events of a stopped session; does nothing if there are none.

    The rows have them as they are stored, so sealed ones need `attach_keys`.
    """
    live = await projection_positions.lock_active_position(connection)
    if live is None:
        return ReplayResult(0, None)
    raws = await stopped_sessions.release_events(connection, live.build, (tenant, session))
    if not raws:
        return ReplayResult(0, None)
    opening = await attach_keys(raws) if attach_keys else raws
    batches = await connection.run_sync(_write_events, live.build, opening)
    poisons = [poison for batch in batches for poison in batch.poisons]
    return ReplayResult(len(raws), poisons[0] if poisons else None)
