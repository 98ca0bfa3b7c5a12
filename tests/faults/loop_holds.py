"""How long an event loop is held while strangers' input is read.

The suite checks other things of that input, since times depend on the machine; with FAULTS=all the
promise itself is measured. A failure says how much of a hold was processor time of the loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest_asyncio

from tests.faults.suite_extent import RUN_EVERYTHING
from turnlog.services.platform.telemetry.loop_probe import LONG_HOLD, run_loop_probe


@asynccontextmanager
async def check_loop_holds(name: str) -> AsyncGenerator[None]:
    """Measure the loop of a block; with FAULTS=all it must not be held for longer than promised."""
    async with run_loop_probe() as probe:
        yield
    print(f"{name}: longest hold {probe.longest}")
    if RUN_EVERYTHING:
        assert probe.longest.seconds < LONG_HOLD, f"{name} held the loop: {probe.longest}"


@pytest_asyncio.fixture
async def loop_holds() -> AsyncGenerator[None]:
    """Measure the loop of a whole test."""
    async with check_loop_holds("the test"):
        yield
