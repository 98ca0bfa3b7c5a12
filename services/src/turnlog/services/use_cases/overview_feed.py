"""The overview for those who watch it: read once for all of them, and sent when it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog

from turnlog.contract.call_payloads import OverviewView
from turnlog.events.errors import TurnlogError
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.use_cases.overview_reading import OverviewReading

_log = structlog.get_logger("turnlog.overview")

SECONDS_BETWEEN: Final = 1.0
"""Least seconds between two readings."""

REST_SHARE: Final = 9
"""How many times as long as a reading took nothing is read: it takes a tenth of the time."""

QUIET_SECONDS: Final = 5.0
"""Seconds after which it is read again without a signal: the projector may be another process."""

WatchedTime = tuple[str, datetime | None]
"""A tenant, and since when its overview counts."""


@dataclass(slots=True, kw_only=True)
class WatchedOverview:
    """One overview that is watched: the latest reading as JSON, and those who wait for the next."""

    watchers: int = 0
    latest: OverviewView | None = None
    encoded: bytes = b""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    reading: asyncio.Task[None] | None = None

    def replace_latest(self, found: OverviewView) -> None:
        """Take a reading, and wake those who wait if more than its time differs."""
        if self.latest is not None and found == self.latest.model_copy(update={"at": found.at}):
            return
        self.latest, self.encoded = found, found.model_dump_json().encode()
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


@dataclass(frozen=True, slots=True)
class OverviewFeed:
    """Gives an overview to all who watch it."""

    overview: OverviewReading
    signal: ProjectionSignal
    _watched: dict[WatchedTime, WatchedOverview] = field(
        default_factory=dict[WatchedTime, WatchedOverview]
    )

    async def watch_overview(
        self, tenant: str, since: datetime | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield the overview as JSON, and again when it has changed."""
        key = (tenant, since)
        watched = self._watched.setdefault(key, WatchedOverview())
        watched.watchers += 1
        if watched.reading is None:
            watched.reading = asyncio.create_task(self._read_repeatedly(key, watched))
        shown = b""
        try:
            while True:
                changed = watched.changed
                if watched.encoded == shown:
                    await changed.wait()
                shown = watched.encoded
                yield shown
        finally:
            watched.watchers -= 1
            if not watched.watchers:
                watched.reading.cancel()
                self._watched.pop(key, None)

    async def _read_repeatedly(self, key: WatchedTime, watched: WatchedOverview) -> None:
        clock = asyncio.get_running_loop()
        while True:
            signal, began = self.signal.get_next_signal(), clock.time()
            try:
                watched.replace_latest(await self.overview.load_overview(*key))
            except TurnlogError:
                pass  # `/readyz` reports it, and a later reading is sent.
            except Exception:  # noqa: BLE001 - whatever it is, watchers wait for the next reading
                _log.exception("overview-not-read", tenant=key[0])
            await asyncio.sleep(max(SECONDS_BETWEEN, REST_SHARE * (clock.time() - began)))
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET_SECONDS):
                    await signal.wait()
