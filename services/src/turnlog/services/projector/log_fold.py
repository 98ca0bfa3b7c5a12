"""Folds the log into the rows of a build; shared by the projector and by rebuilds.

Each step is one transaction that writes rows and position together. A step that finds its position
moved by another process writes nothing and is the last one.

Before anything is folded, rows and log are verified to belong together. A log that was lost,
replaced or rolled back is another history, and folding it into the old rows would mix the two
beyond repair. The projector stops instead and tells the operator what to do. A log that seems too
short is read again for a while, because right after an election a leader may not know its end.

A rebuild fills a new build while readers use the old one. For the last events the old position is
locked, and the same transaction switches readers. A crash at any point leaves the old rows
unchanged; the unfinished build is resumed or cleared later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import structlog

from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import EventLog, LogIdentity, RawEvent
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write import projection_positions
from turnlog.projections.store.write.batch_apply import (
    ApplyResult,
    UnchainedEvents,
    apply_batch,
    apply_chained_batch,
)
from turnlog.projections.store.write.projection_positions import (
    ProjectionPosition,
    clear_hidden_builds,
)
from turnlog.projections.store.write.quarantining_fold import PoisonEvent
from turnlog.services.integrity.rollback_confirmation import CONFIRM_SECONDS
from turnlog.services.integrity.row_rollback_check import verify_log, verify_same_event
from turnlog.services.platform.gc_control import reduce_collection
from turnlog.services.platform.telemetry.traces import Tracing, add_links

LIVE_BATCH_EVENTS: Final = 500
"""Maximum events of one transaction, which limits how long another writer waits."""


CATCH_UP_BATCH_EVENTS: Final = 5_000
"""The same while older events are read; larger, so that changes of one row are merged in memory."""


_log = structlog.get_logger("turnlog.projector")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFolder:
    """Folds events of one stream into the rows."""

    log: EventLog
    store: ReadModelStore
    tracing: Tracing
    tenant: str
    """Any tenant of the stream."""
    patience: float = CONFIRM_SECONDS
    """Seconds for which a log must be too short to count as rolled back."""
    catch_up_batch: int = CATCH_UP_BATCH_EVENTS
    """Maximum events of one transaction while older events are read."""

    async def fold_from(
        self, at: ProjectionPosition, *, live: bool
    ) -> AsyncGenerator[ProjectionPosition | None]:
        """Fold the events after a position, and yield each new position.

        Yields None last if another process moved the position.
        """
        await self.verify_position(at)
        try:
            async with aclosing(self._fold_batches(at, live=live)) as steps:
                async for moved in steps:
                    yield moved
                    if moved is None:
                        return
                    at = moved
        except Corrupt:
            # The log only reports that it changed; check what that means for the rows.
            await self.verify_position(at)
            raise

    async def _fold_batches(
        self, at: ProjectionPosition, *, live: bool
    ) -> AsyncGenerator[ProjectionPosition | None]:
        most = LIVE_BATCH_EVENTS if live else self.catch_up_batch
        async with aclosing(stream_fold_batches(self.log, at, live=live, most=most)) as batches:
            async for raws in batches:
                step = await self._apply_batch(at, raws)
                yield _report_result(step)
                if step is None:
                    return
                at = step.checkpoint

    async def verify_position(self, at: ProjectionPosition) -> None:
        """Raise `Corrupt` unless rows and log belong together."""
        await verify_log(self.log, self.tenant, at, seconds=self.patience)

    async def _apply_batch(
        self, at: ProjectionPosition, raws: Sequence[RawEvent]
    ) -> ApplyResult | None:
        with self.tracing.start_projection_span() as span:
            try:
                step = await self.store.run_writer(lambda each: apply_chained_batch(each, at, raws))
            except UnchainedEvents:
                # The log may have been rolled back meanwhile; then nothing is written.
                await self.verify_position(at)
                step = await self.store.run_writer(lambda each: apply_batch(each, at, raws))
            for batch in step.batches if step else ():
                add_links(span, batch.traceparents)
        return step


async def stream_fold_batches(
    log: EventLog, at: ProjectionPosition, *, live: bool, most: int
) -> AsyncGenerator[Sequence[RawEvent]]:
    """Yield the events after a position, in batches of at most `most` for one transaction.

    The event at the position is read again as the first one, so nothing after a different event is
    yielded, however long ago the position was verified. Raises `Corrupt` if it is a different
    event.
    """
    known = at.position > 0
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


def _report_result(step: ApplyResult | None) -> ProjectionPosition | None:
    if step is None:
        return None
    report_faults(step)
    return step.checkpoint


def report_faults(step: ApplyResult) -> None:
    """Log the sessions that were stopped, and one line for all stray messages of a session."""
    for poison in step.poisons:
        report_poison(poison)
    counts = Counter(stray.owner for stray in step.strays)
    for stray in {each.owner: each for each in step.strays}.values():
        tenant, session = stray.owner
        _log.warning(
            "stray-messages",
            tenant=tenant,
            session=session,
            count=counts[stray.owner],
            position=stray.position,
            reason=stray.reason,
        )


def report_poison(poison: PoisonEvent) -> None:
    """Log an error for a session that was stopped."""
    _log.error(
        "session-stopped",
        tenant=poison.tenant,
        session=poison.session,
        position=poison.position,
        reason=poison.reason,
    )


RebuildProgress = Callable[[int, int], None]
"""Called with the stream sequence of the rebuild, and that of the active rows at its start."""


async def rebuild_rows(
    folder: LogFolder, progress: RebuildProgress, *, from_start: bool = True
) -> ProjectionPosition | None:
    """Rebuild the rows and switch to them; None if another rebuild took over.

    Unless `from_start`, an unfinished build of this release is resumed.
    """
    await prepare_schema(folder.store)
    if from_start:
        await clear_hidden_builds(folder.store)
    log = await folder.log.get_identity(folder.tenant)
    live, building = await _begin_or_resume(folder, log)
    goal = live.position if live else 0
    with reduce_collection():
        async with aclosing(folder.fold_from(building, live=False)) as steps:
            async for step in steps:
                if step is None:
                    return None
                building = step
                progress(building.position, goal)
    switched = await _switch_to_build(folder, building)
    if switched:
        progress(switched.position, switched.position)
        await clear_hidden_builds(folder.store, below=switched.build)
    return switched


async def _begin_or_resume(
    folder: LogFolder, log: LogIdentity
) -> tuple[ProjectionPosition | None, ProjectionPosition]:
    async with folder.store.open_writer() as connection:
        live = await projection_positions.lock_active_position(connection)
        above = live.build if live else 0
        building = await projection_positions.find_unfinished_build(connection, log, above=above)
        return live, building or await projection_positions.begin_build(
            connection, log, is_active=False
        )


async def _switch_to_build(
    folder: LogFolder, building: ProjectionPosition
) -> ProjectionPosition | None:
    async with folder.store.open_writer() as connection:
        await projection_positions.lock_active_position(connection)
        batches = stream_fold_batches(folder.log, building, live=False, most=folder.catch_up_batch)
        async with aclosing(batches) as found:
            async for raws in found:
                step = await connection.run_sync(apply_batch, building, raws)
                if step is None:
                    return None
                report_faults(step)
                building = step.checkpoint
        return await projection_positions.switch_to_build(connection, building)
