"""An event loop with simulated time: it jumps to the next timer, and a seed orders the rest.

Among all callbacks that could run, the seed picks one, so that every order that a busy machine may
produce is produced by some seed. Callbacks of a stopped process wait until it continues. Callbacks
of a killed process never run again, not even its `finally`.

asyncio and the product keep tasks in sets. A set ordered by memory addresses would depend on what
the process did before, and no seed alone would decide what happens. So tasks and futures hash by
the order in which they were created.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

from turnlog.events.async_tasks import cancel_tasks
from turnlog.services.platform import concurrency

TaskResultT = TypeVar("TaskResultT")


class NumberedFuture(asyncio.Future[Any]):
    """A future that hashes by its creation order."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class NumberedTask(asyncio.Task[TaskResultT]):
    """A task that hashes by its creation order."""

    def __init__(
        self,
        number: int,
        work: Coroutine[Any, Any, TaskResultT],
        *,
        loop: asyncio.AbstractEventLoop,
        name: str | None,
        context: Context | None,
    ) -> None:
        self._number = number
        super().__init__(work, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._number


LoopResultT = TypeVar("LoopResultT")

START_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def run_immediately(work: Callable[[], object], arguments: tuple[()]) -> None:
    """Do a thread's work where the thread is started, because no seed orders real threads."""
    work(*arguments)


class SimulationStuck(Exception):
    """No callback is left that could run, or the time limit has passed."""


class SimulatedLoop:
    """Runs everything in one thread, in an order that only the given generator decides."""

    def __init__(self, chance: random.Random, until: float) -> None:
        self.itself = cast("asyncio.AbstractEventLoop", self)
        """The same, as asyncio knows it; of what a loop has, it has what the house calls."""
        self.chance = chance
        self.until = until
        self.outside = copy_context()
        """The context of what is nobody's process: the server and the network."""
        self.complaints: list[str] = []
        """What asyncio itself found wrong, such as an exception that nobody looked at."""
        self._now = 0.0
        self._made = 0
        self._ready: list[asyncio.Handle] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []

    def time(self) -> float:
        return self._now

    def read_clock(self, wrong_by: float = 0.0) -> datetime:
        """Read a clock that is off by so many seconds."""
        return START_TIME + timedelta(seconds=self._now + wrong_by)

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self.itself, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:  # fmt: skip
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:  # fmt: skip
        handle = asyncio.TimerHandle(when, callback, args, self.itself, context)
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, handle))
        return handle

    def run_handles(self, handles: list[asyncio.Handle]) -> None:
        """Schedule handles that were held back."""
        self._ready += handles

    def create_future(self) -> asyncio.Future[Any]:
        self._made += 1
        return NumberedFuture(self._made, loop=self.itself)

    def create_task(
        self,
        coro: Coroutine[Any, Any, LoopResultT],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[LoopResultT]:
        self._made += 1
        task = NumberedTask(self._made, coro, loop=self.itself, name=name, context=context)
        process = (context or copy_context()).get(CURRENT_PROCESS)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(lambda done: process.tasks.pop(done, None), context=self.outside)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is skipped when its time comes."""

    def run_until_done(self, work: Coroutine[Any, Any, LoopResultT]) -> LoopResultT:
        """Run until `work` is done; raises `SimulationStuck` where it cannot be."""
        asyncio.events._set_running_loop(self.itself)
        start_new_thread = concurrency.__dict__["start_new_thread"]
        concurrency.__dict__["start_new_thread"] = run_immediately
        try:
            task = self.create_task(work)
            while not task.done():
                self._run_next()
            return task.result()
        finally:
            concurrency.__dict__["start_new_thread"] = start_new_thread
            asyncio.events._set_running_loop(None)

    def end_tasks(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Cancel tasks and run until they have ended, so that none is collected while it waits."""

        async def ended() -> None:
            await cancel_tasks(*tasks)

        self.until = float("inf")
        self.run_until_done(ended())

    def _run_next(self) -> None:
        if not self._ready:
            self._advance_time()
        while self._timers and self._timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(self._timers)[2])
        place = int(self.chance.random() * len(self._ready))
        self._ready[place], self._ready[-1] = self._ready[-1], self._ready[place]
        handle = self._ready.pop()
        if handle.cancelled():
            return
        process = handle._context.get(CURRENT_PROCESS)  # type: ignore[attr-defined]
        if process is None or process.accepts_handle(handle):
            handle._run()

    def _advance_time(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise SimulationStuck("nothing is left to happen")
        self._now = max(self._now, self._timers[0][0])
        if self._now > self.until:
            raise SimulationStuck(f"it is not over after {self.until} seconds")


@dataclass(eq=False, kw_only=True)
class SimulatedProcess:
    """Tasks that are stopped together and killed together."""

    name: str
    loop: SimulatedLoop
    tasks: dict[asyncio.Task[Any], None] = field(default_factory=dict[asyncio.Task[Any], None])
    """Kept until they are done: a killed task must not be collected, which would run its `finally`.
    """
    alive: bool = True
    asleep_for: float = 0.0
    """Total seconds it has been stopped, up to the last time it continued."""
    _asleep_since: float | None = None
    _held: list[asyncio.Handle] = field(default_factory=list[asyncio.Handle])
    _dropped: list[asyncio.Handle] = field(default_factory=list[asyncio.Handle])

    def __post_init__(self) -> None:
        self.context = copy_context()
        self.context.run(CURRENT_PROCESS.set, self)

    def spawn_task(self, work: Coroutine[Any, Any, LoopResultT]) -> asyncio.Task[LoopResultT]:
        """Start a task of this process."""
        return self.loop.create_task(work, context=self.context.copy())

    def accepts_handle(self, handle: asyncio.Handle) -> bool:
        """Tell whether a callback of this process may run now; keep it otherwise."""
        if not self.alive:
            self._dropped.append(handle)
        elif self._asleep_since is not None:
            self._held.append(handle)
        return self.alive and self._asleep_since is None

    def kill_tasks(self) -> None:
        """Run none of its callbacks any more."""
        self.alive = False

    def stop_for(self, seconds: float) -> None:
        """Stop it as SIGSTOP does, and continue it after so many seconds."""
        if self._asleep_since is None and self.alive:
            self._asleep_since = self.loop.time()
            self.loop.call_later(seconds, self.resume_tasks, context=self.loop.outside)

    def resume_tasks(self) -> None:
        """Continue a stopped process."""
        if self._asleep_since is not None:
            self.asleep_for += self.loop.time() - self._asleep_since
            self._asleep_since = None
            handles, self._held = self._held, []
            self.loop.run_handles(handles)

    def restore_tasks(self) -> None:
        """Run its tasks again, so that they can be ended."""
        self.alive = True
        self.resume_tasks()
        self._dropped, dropped = [], self._dropped
        self.loop.run_handles(dropped)

    @property
    def awake_for(self) -> float:
        """Seconds of its life so far in which it was running."""
        since = self._asleep_since
        return (self.loop.time() if since is None else since) - self.asleep_for


CURRENT_PROCESS: ContextVar[SimulatedProcess | None] = ContextVar("process", default=None)
