from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import structlog

from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import EventLog, RawEvent
from turnlog.projections.store.advance import ApplyResult, apply_batch
from turnlog.projections.store.checkpoints import ProjectionPosition
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.fold import PoisonEvent, decode_raw_event
from turnlog.services.projector.proof import verify_log, verify_same_event
from turnlog.services.runtime.telemetry import Tracing

LIVE_BATCH_EVENTS: Final = 500
"""Maximum events of one transaction, which limits how long another writer waits."""
CATCH_UP_BATCH_EVENTS: Final = 5_000
"""The same while older events are read; larger, so that changes of one row are merged in memory."""

_log = structlog.get_logger("turnlog.projector")


@dataclass(frozen=True, slots=True)
class LogFolder:
    """Folds events of one stream into the rows."""

    log: EventLog
    store: ReadModelStore
    tracing: Tracing
    tenant: str
    """Any tenant of the stream."""
    patience: float = 5.0
    """Seconds after which a log that seems too short counts as rolled back."""

    async def fold_from(self, at: ProjectionPosition, *, live: bool) -> AsyncGenerator[ProjectionPosition | None]:
        """Fold the events after a position, and yield each new position.

        Yields None last if another process moved the position.
        """
        await self.verify_position(at)
        try:
            async with aclosing(stream_fold_batches(self.log, at, live=live)) as found:
                async for raws in found:
                    moved = await self._fold_batch(at, raws)
                    yield moved
                    if moved is None:
                        return
                    at = moved
        except Corrupt:
            # The log only reports that it changed; check what that means for the rows.
            await self.verify_position(at)
            raise

    async def verify_position(self, at: ProjectionPosition) -> None:
        """Raise `Corrupt` unless rows and log belong together."""
        await verify_log(self.log, self.tenant, at, patience=self.patience)

    async def _fold_batch(self, at: ProjectionPosition, raws: Sequence[RawEvent]) -> ProjectionPosition | None:
        events = [decode_raw_event(raw) for raw in raws]
        with self.tracing.start_projection_span(event.traceparent for event in events):
            async with self.store.open_writer() as connection:
                step = await apply_batch(connection, at, events)
                if step and not all(poison.is_chained for poison in step.poisons):
                    # The log may have been rolled back meanwhile; then this transaction is not
                    # committed.
                    await self.verify_position(at)
        return _report_result(step) if step else None


async def stream_fold_batches(log: EventLog, at: ProjectionPosition, *, live: bool) -> AsyncGenerator[Sequence[RawEvent]]:
    """Yield the events after a position, in batches for one transaction.

    The event at the position is read again as the first one, so nothing after a different event is
    yielded, however long ago the position was verified. Raises `Corrupt` if it is a different
    event.
    """
    known, most = at.position > 0, LIVE_BATCH_EVENTS if live else CATCH_UP_BATCH_EVENTS
    waiting: list[RawEvent] = []
    async with aclosing(log.stream_raw_events(None, at.position - known, live=live)) as found:
        async for raws in found:
            if known:
                verify_same_event(raws[0], at)
            waiting += raws[known:]
            known = False
            while len(waiting) >= most or (live and waiting):
                yield waiting[:most]
                waiting = waiting[most:]
    if waiting:
        yield waiting


def _report_result(step: ApplyResult) -> ProjectionPosition:
    for poison in step.poisons:
        report_poison(poison)
    return step.checkpoint


def report_poison(poison: PoisonEvent) -> None:
    """Log an error for a session that was stopped."""
    _log.error(
        "session-stopped",
        tenant=poison.tenant,
        session=poison.session,
        position=poison.position,
        reason=poison.reason,
    )
