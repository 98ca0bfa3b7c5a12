"""One agent service for a module of tests, reset for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.agents.platform import Platform, platform_at


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    async with platform_at(tmp_path_factory.mktemp("platform")) as platform:
        yield platform


@pytest_asyncio.fixture(loop_scope="module")
async def platform(running: Platform) -> AsyncIterator[Platform]:
    fresh = running.fresh()
    yield fresh
    assert await fresh.unproven() == []
