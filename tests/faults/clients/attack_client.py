"""Clients of a service under attack, which record what they see and repeat what got no answer.

A client knows only what the documentation says: it sends a key, sends the same request again when
no answer came or the answer was "not now", and resumes a stream with the last id it received.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from base64 import b64encode
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.faults.clients.client_history import (
    ClientHistory,
    CommandKind,
    CommandTry,
    HeardReply,
    ReadResult,
)
from tests.services.gateway.streaming.sse_client import ResumingWatcher
from tests.support.processes.live_service import SERVICE_TIMEOUT

RETRY_DELAY: Final = 0.1
"""Seconds before a request is repeated."""

RETRY_STATUSES: Final = frozenset({429, 503, 504})

_names = itertools.count(1)


@contextmanager
def _name_timeout(what: str) -> Generator[None]:
    """Say what took too long."""
    try:
        yield
    except TimeoutError as error:
        raise AssertionError(f"after {SERVICE_TIMEOUT:g} s {what}") from error


@dataclass(kw_only=True)
class AttackClient:
    """A client with one session at a time."""

    http: httpx.AsyncClient
    history: ClientHistory
    session: str = ""
    name: str = field(default_factory=lambda: f"c{next(_names)}")
    sent: int = 0
    answered: int = 0
    """Turns whose end it received."""

    async def open_session(self, blueprint: str = "assistant") -> None:
        """Open a session."""
        self.session = f"{self.name}-{time.monotonic_ns()}"
        body = {"blueprint": blueprint, "session": self.session}
        await self._send_until_answered("open", "/v1/sessions", body, None)

    async def submit_turn(self, text: str | None = None, picture: bytes | None = None) -> int:
        """Submit a turn, repeated until it is accepted, and return its number."""
        text = text or f"{self.name} asks for the {self.sent + 1}th time."
        form: dict[str, Any] = {"text": text}
        if picture is not None:
            sent = {"type": "image", "data": b64encode(picture).decode()}
            form = {"parts": [{"type": "text", "text": text}, sent]}
        answer = await self._send_until_answered(
            "submit", f"{self._session_path}/turns", form, text
        )
        return int(answer["turn"])

    async def run_conversation(self, turns: int, blueprint: str = "assistant") -> None:
        """Open a session, then submit and watch several turns."""
        await self.open_session(blueprint)
        for _ in range(turns):
            await self.watch_turn(await self.submit_turn())

    async def watch_turn(self, turn: int) -> HeardReply:
        """Watch a reply to its end, over as many connections as it takes."""
        assert self.http.base_url.port is not None
        watcher = ResumingWatcher(
            port=self.http.base_url.port, path=f"{self._session_path}/turns/{turn}/stream"
        )
        with _name_timeout(f"turn {turn} of {self.session} is not over"):
            async with asyncio.timeout(SERVICE_TIMEOUT):
                end = await self._watch_until_end(watcher)
        reply = HeardReply(self.session, turn, watcher.text, end)
        self.history.heard.append(reply)
        self.answered += 1
        return reply

    async def _watch_until_end(self, watcher: ResumingWatcher) -> str:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError, AssertionError):
                await watcher.watch_connection()
            if watcher.end_event:
                return watcher.end_event.name
            await asyncio.sleep(RETRY_DELAY)

    async def read_calls(self, min_sequence: int) -> int:
        """Read the calls as of at least a sequence, and return the status of the answer."""
        answer = await self.http.get(
            f"{self._session_path}/calls", params={"min_sequence": min_sequence}
        )
        if answer.is_success:
            sequence = int(answer.json()["sequence"])
            self.history.reads.append(ReadResult(self.session, min_sequence, sequence))
        return answer.status_code

    async def send_once(
        self,
        what: CommandKind,
        path: str,
        form: Mapping[str, Any],
        key: str,
        text: str | None,
    ) -> CommandTry:
        """Send a command once, and record its outcome."""
        asked_at, status, body = time.monotonic(), None, dict[str, Any]()
        with suppress(httpx.HTTPError):
            answer = await self.http.post(path, json=form, headers={"Idempotency-Key": key})
            status, body = answer.status_code, answer.json()
        answered_at = time.monotonic()
        tried = CommandTry(
            session=self.session,
            what=what,
            key=key,
            text=text,
            asked_at=asked_at,
            told_at=answered_at,
            status=status,
            body=body,
        )
        self.history.tries.append(tried)
        return tried

    async def _send_until_answered(
        self,
        what: CommandKind,
        path: str,
        form: Mapping[str, Any],
        text: str | None,
    ) -> Mapping[str, Any]:
        self.sent += 1
        key = f"{self.name}-{self.sent}"
        with _name_timeout(f"command {key} of {self.session} is not answered"):
            async with asyncio.timeout(SERVICE_TIMEOUT):
                while True:
                    tried = await self.send_once(
                        what=what, path=path, form=form, key=key, text=text
                    )
                    if tried.accepted:
                        return tried.body
                    assert tried.status is None or tried.status in RETRY_STATUSES, tried
                    await asyncio.sleep(RETRY_DELAY)

    @property
    def _session_path(self) -> str:
        return f"/v1/sessions/{self.session}"
