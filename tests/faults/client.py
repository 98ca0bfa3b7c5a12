"""Clients of a service under attack, which record what they see and repeat what got no answer.

A client knows only what the documentation says: it sends a key, sends the same request again when
no answer came or the answer was "not now", and resumes a stream with the last id it received.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.faults.history import Heard, History, Look, Try, What
from tests.parts.service import WITHIN
from tests.services.gateway.watching import Watcher

AGAIN: Final = 0.1
"""Seconds before a request is repeated."""
NOT_NOW: Final = frozenset({429, 503, 504})
_names = itertools.count(1)


@dataclass
class Client:
    """A client with one session at a time."""

    http: httpx.AsyncClient
    history: History
    session: str = ""
    name: str = field(default_factory=lambda: f"c{next(_names)}")
    sent: int = 0
    answered: int = 0
    """Turns whose end it received."""

    async def open(self, blueprint: str = "assistant") -> None:
        """Open a session."""
        self.session = f"{self.name}-{time.monotonic_ns()}"
        asked = {"blueprint": blueprint, "session": self.session}
        await self._surely("open", "/v1/sessions", asked, None)

    async def submit(self, text: str | None = None) -> int:
        """Submit a turn, repeated until it is accepted, and return its number."""
        text = text or f"{self.name} asks for the {self.sent + 1}th time."
        answer = await self._surely("submit", f"{self._here}/turns", {"text": text}, text)
        return int(answer["turn"])

    async def converse(self, turns: int, blueprint: str = "assistant") -> None:
        """Open a session, then submit and watch several turns."""
        await self.open(blueprint)
        for _ in range(turns):
            await self.watch(await self.submit())

    async def watch(self, turn: int) -> Heard:
        """Watch a reply to its end, over as many connections as it takes."""
        assert self.http.base_url.port is not None
        watcher = Watcher(self.http.base_url.port, f"{self._here}/turns/{turn}/stream")
        async with asyncio.timeout(WITHIN):
            end = await self._end(watcher)
        heard = Heard(self.session, turn, watcher.text, end)
        self.history.heard.append(heard)
        self.answered += 1
        return heard

    async def _end(self, watcher: Watcher) -> str:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError, AssertionError):
                await watcher.watch()
            if watcher.end:
                return watcher.end.name
            await asyncio.sleep(AGAIN)

    async def look(self, wanted: int) -> int:
        """Read the calls as of at least a sequence, and return the status of the answer."""
        answer = await self.http.get(f"{self._here}/calls", params={"min_sequence": wanted})
        if answer.is_success:
            shown = int(answer.json()["sequence"])
            self.history.looks.append(Look(self.session, wanted, shown))
        return answer.status_code

    async def once(
        self,
        what: What,
        path: str,
        asked: Mapping[str, Any],
        key: str,
        text: str | None,
    ) -> Try:
        """Send a command once, and record its outcome."""
        asked_at, status, body = time.monotonic(), None, dict[str, Any]()
        with suppress(httpx.HTTPError):
            answer = await self.http.post(path, json=asked, headers={"Idempotency-Key": key})
            status, body = answer.status_code, answer.json()
        told = time.monotonic()
        tried = Try(self.session, what, key, text, asked_at, told, status, body)
        self.history.tries.append(tried)
        return tried

    async def _surely(
        self,
        what: What,
        path: str,
        asked: Mapping[str, Any],
        text: str | None,
    ) -> Mapping[str, Any]:
        self.sent += 1
        key = f"{self.name}-{self.sent}"
        async with asyncio.timeout(WITHIN):
            while True:
                tried = await self.once(what, path, asked, key, text)
                if tried.accepted:
                    return tried.body
                assert tried.status is None or tried.status in NOT_NOW, tried
                await asyncio.sleep(AGAIN)

    @property
    def _here(self) -> str:
        return f"/v1/sessions/{self.session}"
