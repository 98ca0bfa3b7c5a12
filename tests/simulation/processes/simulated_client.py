"""A client of one session that sends random commands and repeats them.

A request without an answer is sent again with its key, to any gateway, until one comes. Some
requests are sent twice at once, or once more after they were answered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final, Literal

from fastapi import Request, Response
from pydantic import BaseModel, JsonValue
from starlette.types import Message

from tests.faults.clients.client_history import ClientHistory, CommandTry
from tests.simulation.network.simulated_http import RequestHandler, SimulatedAnswer, send_request
from tests.simulation.processes.simulated_loop import SimulatedLoop
from tests.simulation.processes.simulated_media import SimulatedMedia, draw_media
from tests.simulation.processes.simulated_roles import TENANT, SimulatedGateway
from tests.simulation.session_kinds import CHOICES, SIGNALS, has_approvals, has_children
from turnlog.contract.session_requests import (
    CancelTurnRequest,
    CloseSessionRequest,
    DecideApprovalRequest,
    MediaPartInput,
    PhaseSignalRequest,
    RecordChoiceRequest,
    RedactTurnRequest,
    SubmitTurnRequest,
    TextPartInput,
    TurnPartInput,
)
from turnlog.contract.value_names import RedactedPart
from turnlog.events.content import Digest
from turnlog.events.model.redaction_events import OPERATOR_RULE
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    Command,
    DecideApproval,
    ExcludeTurn,
    PurgeMemory,
    RecordChoice,
    RestoreTurn,
    SendSignal,
    SubmitTurn,
)
from turnlog.projections.session.turn_commands import RedactReply, RedactText, RedactTurn
from turnlog.services.approvals import approval_routes
from turnlog.services.gateway.routes import memory_routes, session_command_routes, turn_routes
from turnlog.services.http.request_identity import RequestIdentity
from turnlog.services.identity.principals import Principal
from turnlog.services.media import media_routes


async def receive_empty_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


PLAIN_REQUEST: Final = Request(
    {"type": "http", "method": "POST", "path": "/", "headers": []}, receive_empty_body
)

GatewayPicker = Callable[[], SimulatedGateway]

ChildPicker = Callable[["SimulatedClient"], "SimulatedClient | None"]


@dataclass(eq=False, kw_only=True)
class SimulatedClient:
    """One of several clients of a session."""

    name: str
    session: str
    material: SessionMaterial
    loop: SimulatedLoop
    gateway: GatewayPicker
    """Picks a running gateway."""
    history: ClientHistory
    watch: Callable[[str, int], None]
    """Starts to watch a turn."""
    pick_child: ChildPicker
    """Picks a client of a child of its session, if there is one."""
    uploads: list[SimulatedMedia] | None
    """What the clients of a simulation have uploaded; None where turns have no media."""
    is_of_child: bool = False
    """Whether its session is a child, whose turns are submitted by its parent."""
    wanted: dict[str, Command] = field(default_factory=dict[str, Command])
    """The command of each key."""
    sent_media: dict[str, tuple[Digest, ...]] = field(
        default_factory=dict[str, "tuple[Digest, ...]"]
    )
    """What the turn of each key has beside its text."""
    keys: count[int] = field(default_factory=lambda: count(1))
    turn: int = 0
    """The latest turn it knows."""

    @property
    def chance(self) -> random.Random:
        return self.loop.chance

    async def run_steps(self, steps: int) -> None:
        """Take so many random steps, one after another."""
        for _ in range(steps):
            await asyncio.sleep(self.chance.random() * self.chance.choice((1, 5, 20)))
            is_team = has_children(self.material.blueprint)
            child = self.pick_child(self) if is_team and self.chance.random() < 0.5 else None
            await (child or self).run_step()

    async def run_step(self) -> None:
        """Send one random command."""
        turn = self.chance.randint(1, max(1, self.turn))
        match self.chance.choices(_ACTIONS, self._choose_weights())[0]:
            case "submit":
                await self._submit_turn()
            case "cancel":
                form = CancelTurnRequest(turn=turn if self.chance.random() < 0.3 else None)
                act = partial(turn_routes.cancel_turn, form=form)
                await self._send_command("cancel", CancelTurn(form.turn), act)
            case "exclude":
                act = partial(session_command_routes.exclude_turn, turn=turn)
                await self._send_command(f"exclude {turn}", ExcludeTurn(turn), act)
            case "restore":
                act = partial(session_command_routes.restore_turn, turn=turn)
                await self._send_command(f"restore {turn}", RestoreTurn(turn), act)
            case "redact":
                await self._redact_turn(turn)
            case "purge":
                await self._send_command("purge", PurgeMemory(), memory_routes.purge_memory)
            case "choose":
                await self._choose_or_signal()
            case "decide":
                await self._decide_approval(self.turn or 1)
            case "close":
                close = CloseSessionRequest()
                closing = partial(session_command_routes.close_session, form=close)
                await self._send_command("close", CloseSession(close.reason), closing)

    async def _redact_turn(self, turn: int) -> None:
        """Redact the reply of a turn, its text or both."""
        parts: tuple[RedactedPart, ...] = ("reply", "text", "turn")
        form = RedactTurnRequest(turn=turn, reason="on request", of=self.chance.choice(parts))
        reply = RedactReply(turn, form.reason, OPERATOR_RULE, "-")
        text = RedactText(turn=turn, reason=form.reason, rule=OPERATOR_RULE, replacement="-")
        commands: Mapping[RedactedPart, Command] = {
            "reply": reply,
            "text": text,
            "turn": RedactTurn(text, reply),
        }
        act = partial(session_command_routes.redact_turn, form=form)
        await self._send_command("redact", commands[form.of or "reply"], act)

    def _choose_weights(self) -> Sequence[float]:
        if self.material.phases:
            return _LESSON_WEIGHTS
        if self.is_of_child:
            return _CHILD_WEIGHTS
        decides = has_approvals(self.material.blueprint) and not has_children(
            self.material.blueprint
        )
        return _APPROVAL_WEIGHTS if decides else _ACTION_WEIGHTS

    async def _decide_approval(self, turn: int) -> None:
        approval = self.chance.choice((1, 1, 1, 2, 3))
        form = DecideApprovalRequest(decision=self.chance.choice(("approve", "refuse")))
        command = DecideApproval(turn=turn, approval=approval, decision=form.decision)
        act = partial(approval_routes.decide_approval, turn=turn, approval=approval, form=form)
        await self._send_command(f"decide {turn} {approval}", command, act, used="approvals")

    async def _choose_or_signal(self) -> None:
        phases = self.material.phases
        assert phases is not None
        if self.chance.random() < 0.7:
            form = RecordChoiceRequest(choice=self.chance.choice(CHOICES))
            command = RecordChoice(form.choice, phases)
            return await self._send_command(
                "choice", command, partial(session_command_routes.record_choice, form=form)
            )
        signal = self.chance.choice(SIGNALS)
        sent = partial(session_command_routes.send_signal, form=PhaseSignalRequest(signal=signal))
        return await self._send_command("signal", SendSignal(signal, phases), sent)

    async def _submit_turn(self) -> None:
        key, blueprint = self._create_key(), self.material.blueprint
        text = f"{key} says " + "so " * self.chance.randint(0, 12)
        inputs: dict[str, JsonValue] = {name: f"{name} of {key}" for name in blueprint.inputs}
        media = await self._draw_parts(key) if self.uploads is not None else []
        said: list[TurnPartInput] = [TextPartInput(type="text", text=text)]
        parts = [*said, *media] if media else None
        form = SubmitTurnRequest(text=None if parts else text, parts=parts, inputs=inputs)
        self.wanted[key] = SubmitTurn(
            text=text, policies=blueprint.policies, phases=self.material.phases, inputs=inputs
        )

        def handler(gateway: SimulatedGateway) -> object:
            caller = RequestIdentity(
                principal=Principal(tenant=TENANT),
                route=f"POST {self.session}/turns",
                idempotency_key=key,
            )
            return turn_routes.submit_turn(
                session=self.session,
                caller=caller,
                submission=gateway.submission,
                turns=gateway.turns,
                form=form,
                request=PLAIN_REQUEST,
            )

        answer = await self._send_until_answered("submit", key, text, handler)
        if answer and answer.status < 300:
            self.turn = int(answer.body["turn"])
            self.watch(self.session, self.turn)

    async def _draw_parts(self, key: str) -> list[MediaPartInput]:
        """Draw the media of a turn: with their bytes, uploaded before, or of an earlier upload.

        Some are named by a digest whose upload may have been lost.
        """
        media, parts = list[SimulatedMedia](), list[MediaPartInput]()
        for _ in range(self.chance.choice((0, 1, 1, 2))):
            how = self.chance.choice(("bytes", "bytes", "upload", "lost upload", "earlier"))
            if how == "earlier" and self.uploads:
                each = self.chance.choice(self.uploads)
            else:
                each = draw_media(self.chance, "image", "image", "audio", "file")
                how = "bytes" if how == "earlier" else how
            if how in {"upload", "lost upload"}:
                await self._upload_media(each, repeated=how == "upload")
            media.append(each)
            parts.append(each.build_part(by_digest=how != "bytes"))
        self.sent_media[key] = tuple(each.digest for each in media)
        return parts

    async def _upload_media(self, media: SimulatedMedia, *, repeated: bool) -> None:
        """Upload bytes until there is an answer, or once."""

        def handler(gateway: SimulatedGateway) -> Awaitable[BaseModel]:
            return media_routes.upload_blob(
                request=media.build_upload(),
                tenant=TENANT,
                media=gateway.media,
                response=Response(),
            )

        assert self.uploads is not None
        while True:
            answer = await send_request(self.gateway(), handler)
            if answer and answer.status < 300:
                assert answer.body["digest"] == media.digest
                self.uploads.append(media)
                return
            if not repeated:
                return
            await asyncio.sleep(self.chance.random() * 3)

    async def _send_command(
        self, what: str, command: Command, act: Callable[..., object], used: str = "steering"
    ) -> None:
        key = self._create_key()
        self.wanted[key] = command

        def handler(gateway: SimulatedGateway) -> object:
            caller = RequestIdentity(
                principal=Principal(tenant=TENANT),
                route=f"POST {self.session}/{what}",
                idempotency_key=key,
            )
            use_case = {used: getattr(gateway, used)}
            return act(self.session, caller=caller, response=Response(), **use_case)

        await self._send_until_answered(what, key, None, handler)

    def _create_key(self) -> str:
        return f"{self.name}-{next(self.keys)}"

    async def _send_until_answered(
        self, what: str, key: str, text: str | None, handler: object
    ) -> SimulatedAnswer | None:
        """Ask until there is an answer, and sometimes more often than that."""
        handle: RequestHandler = handler  # type: ignore[assignment]
        while True:
            twice = 2 if self.chance.random() < 0.1 else 1
            tries = (self._send_once(what, key, text, handle) for _ in range(twice))
            answers: Sequence[SimulatedAnswer | None] = await asyncio.gather(*tries)
            answered = [each for each in answers if each and each.status < 500]
            if answered:
                break
            await asyncio.sleep(self.chance.random() * 3)
        if self.chance.random() < 0.1:
            await self._send_once(what, key, text, handle)
        return answered[0]

    async def _send_once(
        self, what: str, key: str, text: str | None, handler: RequestHandler
    ) -> SimulatedAnswer | None:
        began = self.loop.time()
        answer = await send_request(self.gateway(), handler)
        kind: Literal["submit", "other"] = "submit" if what == "submit" else "other"
        status, body = (answer.status, answer.body) if answer else (None, {})
        now = self.loop.time()
        self.history.tries.append(
            CommandTry(
                session=self.session,
                what=kind,
                key=key,
                text=text,
                asked_at=began,
                told_at=now,
                status=status,
                body=body | {"what": what},
            )
        )
        return answer


_ACTIONS: Final = (
    "submit",
    "cancel",
    "exclude",
    "restore",
    "redact",
    "choose",
    "close",
    "purge",
    "decide",
)

_ACTION_WEIGHTS: Final = (12, 3, 1, 1, 1, 0, 0.2, 0.5, 0)

_LESSON_WEIGHTS: Final = (12, 2, 1, 1, 1, 8, 0.2, 0.5, 0)

_APPROVAL_WEIGHTS: Final = (10, 2, 0.5, 0.5, 0.5, 0, 0.2, 0.5, 16)

_CHILD_WEIGHTS: Final = (0.5, 4, 0.5, 0.5, 0.5, 0, 0.3, 0.3, 10)
