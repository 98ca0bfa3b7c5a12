"""A projector that runs beside a test, and waits for what its rows have reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy import event

from tests.projections.store.folding import Rows, rows_of
from tests.projections.store.histories import Story
from turnlog.events.store.ports import EventLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_until_folded
from turnlog.projections.store.write import projection_positions
from turnlog.services.platform.telemetry import Tracing, create_tracing
from turnlog.services.projector.log_fold import LogFolder, rebuild_rows
from turnlog.services.projector.session_projector import SessionProjector

LONG = 60.0
"""Seconds; longer than any test should need."""


def no_progress(position: int, goal: int) -> None:
    del position, goal


@dataclass
class Running:
    """A log, a database, and the projector between them."""

    log: EventLog
    store: ReadModelStore
    tracing: Tracing = field(default_factory=lambda: create_tracing("projector", None))
    patience: float = 0.0
    bell: ProjectionSignal = field(default_factory=ProjectionSignal)

    @property
    def folding(self) -> LogFolder:
        return LogFolder(self.log, self.store, self.tracing, "t", self.patience)

    async def run(self) -> None:
        await SessionProjector(self.folding, self.bell).run()

    @asynccontextmanager
    async def beside(self) -> AsyncGenerator[asyncio.Task[None]]:
        """Run a projector while the block runs."""
        task = asyncio.create_task(self.run())
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def cancelled_at(self, statement: int, work: Coroutine[None, None, object]) -> None:
        """Run `work` and cancel it at its n-th statement; transaction begins and commits count."""
        task = asyncio.create_task(work)
        left = statement

        def count(*_: object) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                task.cancel()

        engine = self.store.engine.sync_engine
        for name in ("before_cursor_execute", "commit"):
            event.listen(engine, name, count)
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, LONG)
        for name in ("before_cursor_execute", "commit"):
            event.remove(engine, name, count)

    async def folded_all(self, position: int) -> None:
        """Wait until the projection position has reached `position`."""
        while True:
            rung = self.bell.get_next_signal()
            async with self.store.open_reader() as connection:
                live = await projection_positions.read_active_position(connection)
            if live and live.position >= position:
                return
            await asyncio.wait_for(rung.wait(), LONG)

    async def caught_up(self, *stories: Story) -> None:
        """Wait until the rows hold all appended events of these sessions."""
        for story in stories:
            last = story.last.sequence if story.last else 0
            assert await wait_until_folded(
                self.store, self.bell, story.tenant, story.session, last, within=LONG
            )

    async def rows(self) -> Rows:
        """Give the rows that readers see."""
        async with self.store.open_reader() as connection:
            live = await projection_positions.read_active_position(connection)
        return await rows_of(self.store, live.build) if live else {}

    async def rebuilt(self) -> Rows:
        """Rebuild from nothing, and give those rows."""
        assert await rebuild_rows(self.folding, no_progress) is not None
        return await self.rows()
