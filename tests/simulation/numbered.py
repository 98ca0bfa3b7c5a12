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
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

TaskResultT = TypeVar("Result")


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
