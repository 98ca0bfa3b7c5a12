"""Tasks and futures that a set keeps in the same order in every run of a seed.

asyncio and the house hold tasks in sets. What is told from each other by its place in memory comes
out of a set in an order that follows from whatever the process did before: then no seed alone
decides what happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

Result = TypeVar("Result")


class NumberedFuture(asyncio.Future[Any]):
    """A future that is told from others by the order they were made in."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class NumberedTask(asyncio.Task[Result]):
    """A task that is told from others by the order they were made in."""

    def __init__(
        self,
        number: int,
        work: Coroutine[Any, Any, Result],
        *,
        loop: asyncio.AbstractEventLoop,
        name: str | None,
        context: Context | None,
    ) -> None:
        self._number = number
        super().__init__(work, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._number
