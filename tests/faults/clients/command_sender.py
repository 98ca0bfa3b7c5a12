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

from tests.faults.attacked_service import AttackedService
from tests.faults.clients.attack_client import RETRY_DELAY, AttackClient
from tests.faults.clients.client_history import ClientHistory, CommandKind, CommandTry, HeardReply
from tests.simulation.checks.checkable_tries import is_answered
from tests.support.processes.live_service import SERVICE_TIMEOUT

TUTOR_TASK: Final = "share-before-reading"

_names = itertools.count(1)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClientCommand:
    """One command, however often it is sent."""

    session: str
    kind: str
    key: str
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    text: str | None = None


@dataclass
class CommandSender:
    """Sends commands and records each try."""

    service: AttackedService
    history: ClientHistory
    name: str = field(default_factory=lambda: f"m{next(_names)}-{time.monotonic_ns()}")
    keys: itertools.count[int] = field(default_factory=itertools.count)

    def create_open(self, blueprint: str) -> ClientCommand:
        session = f"{self.name}-{next(self.keys)}"
        attributes = {"task": TUTOR_TASK} if blueprint == "trickster" else {}
        body = {"blueprint": blueprint, "session": session, "attributes": attributes}
        return ClientCommand(
            session=session,
            kind="open",
            key=self._create_key(),
            method="POST",
            path="/v1/sessions",
            body=body,
        )

    def create_submit(self, session: str) -> ClientCommand:
        key = self._create_key()
        text = f"What of {key}?"
        return ClientCommand(
            session=session,
            kind="submit",
            key=key,
            method="POST",
            path=_build_path(session, "turns"),
            body={"text": text},
            text=text,
        )

    def create_choice(self, session: str, choice: str) -> ClientCommand:
        path = _build_path(session, "choices")
        return ClientCommand(
            session=session,
            kind="choice",
            key=self._create_key(),
            method="POST",
            path=path,
            body={"choice": choice},
        )

    def create_change(self, what: str, session: str, turn: int) -> ClientCommand:
        match what:
            case "redact":
                body = {"turn": turn, "reason": "on request"}
                path, method = _build_path(session, "redactions"), "POST"
                return ClientCommand(
                    session=session,
                    kind=what,
                    key=self._create_key(),
                    method=method,
                    path=path,
                    body=body,
                )
            case "cancel":
                return ClientCommand(
                    session=session,
                    kind=what,
                    key=self._create_key(),
                    method="POST",
                    path=_build_path(session, what),
                    body={"turn": turn},
                )
            case _:
                method = "PUT" if what == "exclude" else "DELETE"
                path = _build_path(session, f"turns/{turn}/exclusion")
                return ClientCommand(
                    session=session, kind=what, key=self._create_key(), method=method, path=path
                )

    async def send_once(self, wish: ClientCommand) -> CommandTry:
        """Send a command once; an answer may not come."""
        asked_at, status, body = time.monotonic(), None, dict[str, Any]()
        with suppress(httpx.HTTPError):
            answer = await self.service.service.http.request(
                wish.method, wish.path, json=wish.body, headers={"Idempotency-Key": wish.key}
            )
            status, body = answer.status_code, answer.json()
        kind: CommandKind = "submit" if wish.kind == "submit" else "other"
        tried = CommandTry(
            session=wish.session,
            what=kind,
            key=wish.key,
            text=wish.text,
            asked_at=asked_at,
            told_at=time.monotonic(),
            status=status,
            body={**body, "what": wish.kind},
        )
        if wish.kind == "open":
            tried = replace(tried, what="open")
        self.history.tries.append(tried)
        return tried

    async def send_until_answered(self, wish: ClientCommand) -> CommandTry:
        """Send a command until it is answered; killed processes are restarted for that."""
        async with asyncio.timeout(SERVICE_TIMEOUT):
            while not is_answered(tried := await self.send_once(wish)):
                await self.service.start_missing()
                await asyncio.sleep(RETRY_DELAY)
        return tried

    async def watch_turn(self, session: str, turn: int, *, slowly: bool) -> HeardReply:
        """Watch a reply to its end; a slow client starts late."""
        await asyncio.sleep(1.0 if slowly else 0.0)
        return await AttackClient(
            http=self.service.service.http, history=self.history, session=session
        ).watch_turn(turn)

    def _create_key(self) -> str:
        return f"{self.name}-k{next(self.keys)}"


def _build_path(session: str, what: str) -> str:
    return f"/v1/sessions/{session}/{what}"
