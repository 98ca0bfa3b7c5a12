"""A client of one session that sends random commands and repeats them.

A request without an answer is sent again with its key, to any gateway, until one comes. Some
requests are sent twice at once, or once more after they were answered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final, Literal

from fastapi import Request, Response

from tests.faults.history import History, Try
from tests.simulation.http import Answer, Handler, asked
from tests.simulation.kinds import CHOICES, SIGNALS
from tests.simulation.loop import SimulatedLoop
from tests.simulation.roles import TENANT, Gateway
from turnlog.projections.prompt.session_material import SessionMaterial
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    Command,
    ExcludeTurn,
    PurgeMemory,
    RecordChoice,
    RedactReply,
    RestoreTurn,
    SendSignal,
    SubmitTurn,
)
from turnlog.services.api.requests import (
    CancelTurnRequest,
    CloseSessionRequest,
    PhaseSignalRequest,
    RecordChoiceRequest,
    RedactReplyRequest,
    SubmitTurnRequest,
)
from turnlog.services.gateway.http.request_identity import RequestIdentity
from turnlog.services.gateway.routes import command_routes, memory_routes, turn_routes

PLAIN: Final = Request({"type": "http", "method": "POST", "path": "/", "headers": []})
Gateways = Callable[[], Gateway]


@dataclass(eq=False)
class Client:
    """One of several clients of a session."""

    name: str
    session: str
    material: SessionMaterial
    loop: SimulatedLoop
    gateway: Gateways
    """Picks a running gateway."""
    history: History
    watch: Callable[[str, int], None]
    """Starts to watch a turn."""
    wanted: dict[str, Command] = field(default_factory=dict[str, Command])
    """The command of each key."""
    keys: count[int] = field(default_factory=lambda: count(1))
    turn: int = 0
    """The latest turn it knows."""

    @property
    def chance(self) -> random.Random:
        return self.loop.chance

    async def run(self, steps: int) -> None:
        """Take so many random steps, one after another."""
        for _ in range(steps):
            await asyncio.sleep(self.chance.random() * self.chance.choice((1, 5, 20)))
            await self._step()

    async def _step(self) -> None:
        turn = self.chance.randint(1, max(1, self.turn))
        match self.chance.choices(_DEEDS, _IN_A_LESSON if self.material.phases else _WEIGHTS)[0]:
            case "submit":
                await self._submit()
            case "cancel":
                form = CancelTurnRequest(turn=turn if self.chance.random() < 0.3 else None)
                act = partial(command_routes.cancel_turn, form=form)
                await self._act("cancel", CancelTurn(form.turn), act)
            case "exclude":
                act = partial(command_routes.exclude_turn, turn=turn)
                await self._act(f"exclude {turn}", ExcludeTurn(turn), act)
            case "restore":
                act = partial(command_routes.restore_turn, turn=turn)
                await self._act(f"restore {turn}", RestoreTurn(turn), act)
            case "redact":
                redact = RedactReplyRequest(turn=turn, reason="on request")
                command = RedactReply(turn, redact.reason, command_routes.OPERATOR_RULE, "-")
                await self._act(
                    "redact", command, partial(command_routes.redact_reply, form=redact)
                )
            case "purge":
                await self._act("purge", PurgeMemory(), memory_routes.purge_memory)
            case "choose":
                await self._choose()
            case "close":
                close = CloseSessionRequest()
                act = partial(command_routes.close_session, form=close)
                await self._act("close", CloseSession(close.reason), act)

    async def _choose(self) -> None:
        phases = self.material.phases
        assert phases is not None
        if self.chance.random() < 0.7:
            form = RecordChoiceRequest(choice=self.chance.choice(CHOICES))
            command = RecordChoice(form.choice, phases)
            return await self._act(
                "choice", command, partial(command_routes.record_choice, form=form)
            )
        signal = self.chance.choice(SIGNALS)
        sent = partial(command_routes.send_signal, form=PhaseSignalRequest(signal=signal))
        return await self._act("signal", SendSignal(signal, phases), sent)

    async def _submit(self) -> None:
        key, blueprint = self._key(), self.material.blueprint
        text = f"{key} says " + "so " * self.chance.randint(0, 12)
        form = SubmitTurnRequest(text=text)
        self.wanted[key] = SubmitTurn(text, blueprint.policies, self.material.phases)

        def handler(gateway: Gateway) -> object:
            caller = RequestIdentity(TENANT, f"POST {self.session}/turns", key)
            return turn_routes.submit_turn(self.session, caller, gateway.desk, form, PLAIN)

        answer = await self._insist("submit", key, text, handler)
        if answer and answer.status < 300:
            self.turn = int(answer.body["turn"])
            self.watch(self.session, self.turn)

    async def _act(self, what: str, command: Command, act: Callable[..., object]) -> None:
        key = self._key()
        self.wanted[key] = command

        def handler(gateway: Gateway) -> object:
            caller = RequestIdentity(TENANT, f"POST {self.session}/{what}", key)
            return act(self.session, asked=caller, desk=gateway.desk, response=Response())

        await self._insist(what, key, None, handler)

    def _key(self) -> str:
        return f"{self.name}-{next(self.keys)}"

    async def _insist(
        self, what: str, key: str, text: str | None, handler: object
    ) -> Answer | None:
        """Ask until there is an answer, and sometimes more often than that."""
        handle: Handler = handler  # type: ignore[assignment]
        while True:
            twice = 2 if self.chance.random() < 0.1 else 1
            tries = (self._try(what, key, text, handle) for _ in range(twice))
            answers: Sequence[Answer | None] = await asyncio.gather(*tries)
            told = [each for each in answers if each and each.status < 500]
            if told:
                break
            await asyncio.sleep(self.chance.random() * 3)
        if self.chance.random() < 0.1:
            await self._try(what, key, text, handle)
        return told[0]

    async def _try(self, what: str, key: str, text: str | None, handler: Handler) -> Answer | None:
        began = self.loop.time()
        answer = await asked(self.gateway(), handler)
        kind: Literal["submit", "other"] = "submit" if what == "submit" else "other"
        status, body = (answer.status, answer.body) if answer else (None, {})
        now = self.loop.time()
        self.history.tries.append(
            Try(self.session, kind, key, text, began, now, status, body | {"what": what})
        )
        return answer


_DEEDS: Final = ("submit", "cancel", "exclude", "restore", "redact", "choose", "close", "purge")
_WEIGHTS: Final = (12, 3, 1, 1, 1, 0, 0.2, 0.5)
_IN_A_LESSON: Final = (12, 2, 1, 1, 1, 8, 0.2, 0.5)
