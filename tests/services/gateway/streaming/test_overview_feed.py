"""The overview that many watch is read once for all of them, and sent when it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

import pytest

from turnlog.contract.call_payloads import OverviewTiles, OverviewView
from turnlog.contract.usage_payloads import CostSum
from turnlog.events.errors import Unavailable
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.use_cases import overview_feed
from turnlog.services.use_cases.overview_feed import OverviewFeed
from turnlog.services.use_cases.overview_reading import OverviewReading


def build_overview(near: int, at: int) -> OverviewView:
    cost = CostSum(micro_dollars=0, guessed=False, unpriced_calls=0)
    tiles = OverviewTiles(
        turns_in_flight=0,
        turns_per_minute=0,
        failed_last_hour=0,
        p95_ms=None,
        cost_today=cost,
        input_tokens=0,
        cached_tokens=0,
        near_sessions=near,
        stopped_sessions=0,
        lag=0,
    )
    return OverviewView(
        at=str(at),
        since="2026-11-29T00:00:00Z",
        tiles=tiles,
        series=(),
        versions=(),
        near=(),
        failures=(),
        slow=(),
    )


@dataclass(slots=True)
class CountedReading:
    """A reading whose figures a test changes, and which counts how often it is asked."""

    near: int = 1
    readings: int = 0
    failure: Exception | None = None
    read: asyncio.Event = field(default_factory=asyncio.Event)

    async def load_overview(self, tenant: str, since: datetime | None) -> OverviewView:
        assert (tenant, since) == ("t", None)
        self.readings += 1
        self.read.set()
        if self.failure is not None:
            raise self.failure
        return build_overview(self.near, self.readings)


@dataclass(frozen=True, slots=True)
class WatchedFeed:
    reading: CountedReading = field(default_factory=CountedReading)
    signal: ProjectionSignal = field(default_factory=ProjectionSignal)

    def create_feed(self) -> OverviewFeed:
        return OverviewFeed(cast("OverviewReading", self.reading), self.signal)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> WatchedFeed:
    monkeypatch.setattr(overview_feed, "SECONDS_BETWEEN", 0)
    return WatchedFeed()


def read_near(sent: bytes) -> int:
    return OverviewView.model_validate_json(sent).tiles.near_sessions


async def test_fifty_watchers_cost_one_reading_and_get_each_change(watched: WatchedFeed) -> None:
    feed = watched.create_feed()
    async with AsyncExitStack() as stack:
        watchers: list[AsyncGenerator[bytes]] = [
            await stack.enter_async_context(aclosing(feed.watch_overview("t"))) for _ in range(50)
        ]
        first = await asyncio.gather(*map(anext, watchers))
        assert set(map(read_near, first)) == {1}
        assert watched.reading.readings == 1
        watched.reading.near = 2
        watched.signal.notify_readers()
        second = await asyncio.gather(*map(anext, watchers))
        assert set(map(read_near, second)) == {2}
        assert watched.reading.readings == 2


async def test_nothing_is_read_once_nobody_watches(watched: WatchedFeed) -> None:
    feed = watched.create_feed()
    async with aclosing(feed.watch_overview("t")) as overviews:
        await anext(overviews)
    watched.signal.notify_readers()
    # Whatever still read for the watcher that left would never end.
    left = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*left, return_exceptions=True)
    assert watched.reading.readings == 1
    async with aclosing(feed.watch_overview("t")) as again:
        assert read_near(await anext(again)) == 1
    assert watched.reading.readings == 2


async def test_unchanged_overview_is_not_sent_again(watched: WatchedFeed) -> None:
    async with aclosing(watched.create_feed().watch_overview("t")) as overviews:
        await anext(overviews)
        following = asyncio.ensure_future(anext(overviews))
        watched.reading.read.clear()
        watched.signal.notify_readers()
        await watched.reading.read.wait()
        assert not following.done()
        watched.reading.near = 3
        watched.signal.notify_readers()
        assert read_near(await following) == 3


@pytest.mark.parametrize(
    "failure", [Unavailable("database", "it does not answer"), ZeroDivisionError("a fault of ours")]
)
async def test_watchers_wait_through_readings_that_fail(
    watched: WatchedFeed, failure: Exception
) -> None:
    watched.reading.failure = failure
    async with aclosing(watched.create_feed().watch_overview("t")) as overviews:
        waiting = asyncio.ensure_future(anext(overviews))
        await watched.reading.read.wait()
        watched.reading.failure = None
        watched.signal.notify_readers()
        assert read_near(await waiting) == 1
