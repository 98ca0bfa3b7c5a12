"""A projector that runs beside a test, and waits for what its rows have reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy import Engine, event

from tests.projections.store.row_fold import Rows, read_rows
from tests.projections.store.session_histories import StoredSession
from turnlog.events.store.ports import EventLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_until_folded
from turnlog.projections.store.write import projection_positions
from turnlog.services.platform.telemetry.traces import Tracing, create_tracing
from turnlog.services.projector.log_fold import LogFolder, rebuild_rows
from turnlog.services.projector.session_projector import SessionProjector

TEST_TIMEOUT_SECONDS = 60.0
"""Seconds; longer than any test should need."""


def ignore_progress(position: int, goal: int) -> None:
    del position, goal


def list_engines(store: ReadModelStore) -> list[Engine]:
    """Give what executes a store's statements."""
    return [store.engine.sync_engine, *([store.writer] if store.writer else [])]


@dataclass(kw_only=True)
class ProjectorRunner:
    """A log, a database, and the projector between them."""

    log: EventLog
    store: ReadModelStore
    tracing: Tracing = field(default_factory=lambda: create_tracing("projector", None))
    read_timeout: float = 0.0
    projection_signal: ProjectionSignal = field(default_factory=ProjectionSignal)

    @property
    def folding(self) -> LogFolder:
        return LogFolder(
            log=self.log,
            store=self.store,
            tracing=self.tracing,
            tenant="t",
            patience=self.read_timeout,
        )

    async def run_projector(self) -> None:
        await SessionProjector(self.folding, self.projection_signal).run()

    @asynccontextmanager
    async def run_in_background(self) -> AsyncGenerator[asyncio.Task[None]]:
        """Run a projector while the block runs."""
        task = asyncio.create_task(self.run_projector())
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def cancel_at_statement(
        self, statement: int, work: Coroutine[None, None, object]
    ) -> None:
        """Run `work` and cancel it at its n-th statement; transaction begins and commits count."""
        task = asyncio.create_task(work)
        left, loop = statement, asyncio.get_running_loop()

        def count(*_: object) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                loop.call_soon_threadsafe(task.cancel)

        for engine in list_engines(self.store):
            for name in ("before_cursor_execute", "commit"):
                event.listen(engine, name, count)
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, TEST_TIMEOUT_SECONDS)
        for engine in list_engines(self.store):
            for name in ("before_cursor_execute", "commit"):
                event.remove(engine, name, count)

    async def wait_for_position(self, position: int) -> None:
        """Wait until the projection position has reached `position`."""
        while True:
            next_signal = self.projection_signal.get_next_signal()
            async with self.store.open_reader() as connection:
                live = await projection_positions.read_active_position(connection)
            if live and live.position >= position:
                return
            await asyncio.wait_for(next_signal.wait(), TEST_TIMEOUT_SECONDS)

    async def wait_for_stories(self, *stories: StoredSession) -> None:
        """Wait until the rows hold all appended events of these sessions."""
        for story in stories:
            last = story.last_event.sequence if story.last_event else 0
            assert await wait_until_folded(
                store=self.store,
                signal=self.projection_signal,
                tenant=story.tenant,
                session=story.session,
                sequence=last,
                within=TEST_TIMEOUT_SECONDS,
            )

    async def read_rows(self) -> Rows:
        """Give the rows that readers see."""
        async with self.store.open_reader() as connection:
            live = await projection_positions.read_active_position(connection)
        return await read_rows(self.store, live.build) if live else {}

    async def rebuild_rows(self) -> Rows:
        """Rebuild from nothing, and give those rows."""
        assert await rebuild_rows(self.folding, ignore_progress) is not None
        return await self.read_rows()
