"""The rounds in which a gateway goes on with erasures, and begins those that are due."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from turnlog.events.async_tasks import run_tasks

ROUND_SECONDS: Final = 15.0
"""Seconds between two rounds."""


@asynccontextmanager
async def repeat_rounds(run_round: Callable[[], Awaitable[object]]) -> AsyncGenerator[None]:
    """Run rounds while the body runs, the first one at once."""

    async def go_on() -> None:
        while True:
            await run_round()
            await asyncio.sleep(ROUND_SECONDS)

    async with run_tasks(go_on()):
        yield
