"""The commands that the state machine sends, each with its own key, once or until answered."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx

from tests.faults.client import AGAIN, Client
from tests.faults.history import Heard, History, Try, What
from tests.faults.site import Site
from tests.parts.service import WITHIN
from tests.simulation.judgeable import answered

TASK: Final = "share-before-reading"
_names = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Wish:
    """One command, however often it is sent."""

    session: str
    what: str
    key: str
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    text: str | None = None


@dataclass
class Asking:
    """Sends commands and records each try."""

    at: Site
    history: History
    name: str = field(default_factory=lambda: f"m{next(_names)}-{time.monotonic_ns()}")
    keys: itertools.count[int] = field(default_factory=itertools.count)

    def opening(self, blueprint: str) -> Wish:
        session = f"{self.name}-{next(self.keys)}"
        attributes = {"task": TASK} if blueprint == "trickster" else {}
        body = {"blueprint": blueprint, "session": session, "attributes": attributes}
        return Wish(session, "open", self._key(), "POST", "/v1/sessions", body)

    def submitting(self, session: str) -> Wish:
        key = self._key()
        text = f"What of {key}?"
        return Wish(session, "submit", key, "POST", _of(session, "turns"), {"text": text}, text)

    def choosing(self, session: str, choice: str) -> Wish:
        path = _of(session, "choices")
        return Wish(session, "choice", self._key(), "POST", path, {"choice": choice})

    def marking(self, what: str, session: str, turn: int) -> Wish:
        match what:
            case "redact":
                body = {"turn": turn, "reason": "on request"}
                path, method = _of(session, "redactions"), "POST"
                return Wish(session, what, self._key(), method, path, body)
            case "cancel":
                return Wish(session, what, self._key(), "POST", _of(session, what), {"turn": turn})
            case _:
                method = "PUT" if what == "exclude" else "DELETE"
                path = _of(session, f"turns/{turn}/exclusion")
                return Wish(session, what, self._key(), method, path)

    async def once(self, wish: Wish) -> Try:
        """Send a command once; an answer may not come."""
        asked_at, status, body = time.monotonic(), None, dict[str, Any]()
        with suppress(httpx.HTTPError):
            answer = await self.at.service.http.request(
                wish.method, wish.path, json=wish.body, headers={"Idempotency-Key": wish.key}
            )
            status, body = answer.status_code, answer.json()
        kind: What = "submit" if wish.what == "submit" else "other"
        tried = Try(
            *(wish.session, kind, wish.key, wish.text, asked_at, time.monotonic(), status),
            {**body, "what": wish.what},
        )
        if wish.what == "open":
            tried = replace(tried, what="open")
        self.history.tries.append(tried)
        return tried

    async def insist(self, wish: Wish) -> Try:
        """Send a command until it is answered; killed processes are restarted for that."""
        async with asyncio.timeout(WITHIN):
            while not answered(tried := await self.once(wish)):
                await self.at.start_missing()
                await asyncio.sleep(AGAIN)
        return tried

    async def watch(self, session: str, turn: int, *, slowly: bool) -> Heard:
        """Watch a reply to its end; a slow client starts late."""
        await asyncio.sleep(1.0 if slowly else 0.0)
        return await Client(self.at.service.http, self.history, session).watch(turn)

    def _key(self) -> str:
        return f"{self.name}-k{next(self.keys)}"


def _of(session: str, what: str) -> str:
    return f"/v1/sessions/{session}/{what}"
