"""Processes that fold a long log, because one Python process uses only one processor.

The events of a batch are divided by session. A process receives the stored bytes of its share, and
how far the rows are for those sessions, and returns statements. It reads no log, has no database
and keeps nothing between two batches. The process that reads the log also writes the rows, in one
transaction with their position, while the next batch is folded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import starmap
from multiprocessing.connection import Connection
from typing import Final
from zlib import crc32

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.store.ports import RawEvent
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.write.batch_apply import (
    FoldedBatch,
    fold_batch,
    join_batches,
    read_session_ends,
)
from turnlog.projections.store.write.quarantining_fold import (
    SessionEnds,
    SessionOwner,
    join_ends,
    parse_owner,
)
from turnlog.services.platform.concurrency import send_to_child, start_child_process
from turnlog.services.platform.gc_control import pause_collection, reduce_collection

IN_PROCESS_EVENT_LIMIT: Final = 200_000
"""Events that are folded without processes. These start after a third of them, which leaves some
five seconds for a start, so that they wait for events and not the other way round.
"""

MAX_LANES: Final = 4
"""Processes that one reader of the log can keep busy."""


async def fold_ahead(
    batches: AsyncIterable[Sequence[RawEvent]],
    store: ReadModelStore,
    build: int,
    in_process_events: int,
) -> AsyncGenerator[BatchAhead]:
    """Yield the batches of a log, folded but for so many of the first events.

    A batch is folded while the one before it is written, so each that is yielded must be written
    before the next one is requested.
    """
    lanes: _FoldLanes | None = None
    before: _FoldTask | None = None
    ahead: _FoldTask | None = None
    events, processes = 0, _count_lanes()
    with ExitStack() as started:
        try:
            async for raws in batches:
                if lanes is None and processes and events >= in_process_events // 3:
                    lanes = started.enter_context(_start_lanes(store, build, processes))
                events += len(raws)
                if lanes is None or events <= in_process_events:
                    yield BatchAhead(raws)
                    continue
                before, ahead = ahead, lanes.start_folding(raws, ahead)
                if before is not None:
                    batch = BatchAhead(before.raws, await before.task)
                    yield batch
                    if batch.is_refused:
                        await ahead.task  # It was folded onto rows that are not there.
                        ahead = lanes.start_folding(raws, None)
            if ahead is not None:
                yield BatchAhead(ahead.raws, await ahead.task)
        finally:
            await cancel_tasks(*(each.task for each in (before, ahead) if each is not None))


@dataclass(slots=True)
class BatchAhead:
    """A batch to be written."""

    raws: Sequence[RawEvent]
    folded: FoldedBatch | None = None
    """None if whoever writes it shall fold it too."""
    is_refused: bool = False
    """Set if the database refused a value, so that the batch was not written as it was folded."""


@dataclass(frozen=True, slots=True)
class _FoldTask:
    raws: Sequence[RawEvent]
    task: asyncio.Task[FoldedBatch]


@dataclass(frozen=True, slots=True)
class _FoldLanes:
    processes: Sequence[Connection]
    """Each folds its share of the sessions."""
    store: ReadModelStore
    build: int

    def start_folding(self, raws: Sequence[RawEvent], before: _FoldTask | None) -> _FoldTask:
        """Fold a batch that follows one that is not written yet, or None if all are."""
        return _FoldTask(raws, asyncio.create_task(self._fold_batch(raws, before)))

    async def _fold_batch(self, raws: Sequence[RawEvent], before: _FoldTask | None) -> FoldedBatch:
        shares = [_LaneShare() for _ in self.processes]
        for raw in raws:
            owner = parse_owner(raw.subject)
            share = shares[crc32("/".join(owner).encode()) % len(shares)]
            share.owners.add(owner)
            share.raws.append((raw.subject, raw.stream_sequence, raw.stored))
        ends = await self._find_ends({owner for share in shares for owner in share.owners}, before)
        dialect = self.store.engine.dialect.name
        questions = [
            (share.raws, self.build, dialect, ends.select_sessions(share.owners))
            for share in shares
        ]
        return join_batches(await asyncio.gather(*map(send_to_child, self.processes, questions)))

    async def _find_ends(self, owners: set[SessionOwner], before: _FoldTask | None) -> SessionEnds:
        known = SessionEnds({}, set()) if before is None else (await before.task).ends
        known = known.select_sessions(owners)
        async with self.store.open_reader() as connection:
            others = await connection.run_sync(
                read_session_ends, self.build, owners - known.list_owners()
            )
        return join_ends((known, others))


@dataclass(frozen=True, slots=True)
class _LaneShare:
    owners: set[SessionOwner] = field(default_factory=set[SessionOwner])
    raws: list[tuple[str, int, bytes]] = field(default_factory=list[tuple[str, int, bytes]])


@contextmanager
def _start_lanes(store: ReadModelStore, build: int, processes: int) -> Generator[_FoldLanes]:
    with ExitStack() as started:
        lanes = [started.enter_context(start_child_process(_run_lane)) for _ in range(processes)]
        yield _FoldLanes(lanes, store, build)


def _count_lanes() -> int:
    processors = os.cpu_count() or 1
    return min(processors, MAX_LANES) if processors > 1 else 0


def _run_lane(connection: Connection) -> None:
    with reduce_collection():
        while True:
            share, build, dialect, before = connection.recv()
            with pause_collection():
                connection.send(fold_batch(starmap(RawEvent, share), build, dialect, before))
