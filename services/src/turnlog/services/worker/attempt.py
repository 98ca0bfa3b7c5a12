"""One attempt at a call: send a request and publish the answer token by token.

The attempt ends with an answer, with a failure, or from outside. In each case this module knows the
text that arrived and the time it took, and the provider's connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from turnlog.events.call import Timings
from turnlog.events.log.ports import TokenStream
from turnlog.events.manifest import Manifest
from turnlog.events.tokens import AttemptAlive, AttemptReset, Doing, Token
from turnlog.projections.blueprint.output import OutputSpec
from turnlog.projections.session.commands import Attempt
from turnlog.projections.session.programs import Stage
from turnlog.projections.window.material import Material
from turnlog.projections.window.request import Request
from turnlog.services.worker.guard import Guard, Violation
from turnlog.services.worker.model.exchange import Finished, Model, ModelRequest, TextDelta
from turnlog.services.worker.model.failures import ModelFailure


def _now() -> float:
    """Return the event loop's time, which the timeouts of the attempt also use."""
    return asyncio.get_running_loop().time()


@dataclass
class Speaking:
    """An attempt that is running; its fields stay readable after it was cut off."""

    tenant: str
    session: str
    attempt: Attempt
    tokens: TokenStream
    material: Material
    stage: Stage = "reply"
    """What the call is for; only the stage `reply` is shown to subscribers."""
    tried: int = 0
    """Number of earlier attempts at this call."""
    later: bool = False
    """Whether earlier calls of the turn were answered."""
    guard: Guard = field(default_factory=lambda: Guard("none", ()))
    request: ModelRequest = field(default_factory=lambda: ModelRequest("", ()))
    """The request that is sent; empty until the call is on the log."""
    tools: frozenset[str] = frozenset()
    """The tools of servers, by the names that the model sees."""
    given: Mapping[str, int] = field(default_factory=dict[str, int])
    """Results of the previous turn that a plan may reuse, each with its event sequence."""
    work: str | None = None
    """How the turn was worked out, if this is the reply and later prompts show it."""
    manifest: Manifest | None = None
    """The manifest of the call, once it is on the log."""
    fallback: str | None = None
    """The reply if no model answers; None if the turn fails then."""
    first_token: int | None = None
    finished: Finished | None = None
    """How the model ended, once it has."""
    _started: float = field(default_factory=_now)

    async def announce(self) -> None:
        """Publish that this attempt has started; the text of earlier attempts is void."""
        call, attempt = self.attempt.call, self.attempt.attempt
        sign = AttemptReset if self.tried else AttemptAlive
        await self.tokens.publish(
            self.tenant, self.session, self.attempt.turn, sign(call=call, attempt=attempt)
        )

    async def begins(self, stage: Stage) -> None:
        """Set what the call is for; publish it if the turn has more calls than its reply."""
        self.stage = stage
        if stage != "reply" or self.later:
            await self._tell(stage)

    async def runs(self, tool: str) -> None:
        """Publish that a tool is being run."""
        await self._tell("tool", tool)

    async def _tell(self, doing: Doing, tool: str | None = None) -> None:
        call, attempt = self.attempt.call, self.attempt.attempt
        sign = AttemptAlive(call=call, attempt=attempt, doing=doing, tool=tool)
        await self.tokens.publish(self.tenant, self.session, self.attempt.turn, sign)

    @property
    def output(self) -> OutputSpec | None:
        """The required output format; None if any text is accepted."""
        calls = self.material.blueprint.calls
        return calls[self.manifest.kind].output if self.manifest else None

    @property
    def watched(self) -> bool:
        """Whether the text is published as it arrives; formatted output is parsed as a whole."""
        return self.stage == "reply" and self.output is None

    @property
    def offered(self) -> frozenset[str]:
        """The server tools that the call was offered."""
        offered = self.manifest.parts if self.manifest else ()
        return self.tools & {part.layer for part in offered if part.role == "tools"}

    @property
    def text(self) -> str:
        """Everything the model wrote so far, published or held back."""
        return self.guard.text

    @property
    def shown(self) -> str:
        """The part of the text that was published."""
        return self.guard.text[: self.guard.shown] if self.watched else ""

    async def listen(
        self, attempt: Attempt, request: ModelRequest, model: Model
    ) -> Finished | Violation:
        """Make the call and publish what the guard releases; raises `ModelFailure`."""
        self.attempt, self.request, self._started = attempt, request, _now()
        watched = self.watched
        async with aclosing(model.stream(request)) as stream:
            async for said in stream:
                released = self._heard(said)
                if isinstance(released, Violation):
                    return released
                if released and watched:
                    await self._publish(released)
                if isinstance(said, Finished):
                    return said
        raise ModelFailure("incomplete", "the stream ended without a word")

    def _heard(self, said: TextDelta | Finished) -> str | Violation:
        if isinstance(said, Finished):
            self.finished = said
            return self.guard.end()
        if self.first_token is None:
            self.first_token = self._elapsed()
        return self.guard.hear(said.text)

    async def _publish(self, text: str) -> None:
        token = Token(
            call=self.attempt.call,
            attempt=self.attempt.attempt,
            offset=self.guard.shown - len(text),
            text=text,
        )
        await self.tokens.publish(self.tenant, self.session, self.attempt.turn, token)

    def _elapsed(self) -> int:
        return round((_now() - self._started) * 1000)

    @property
    def timings(self) -> Timings:
        """The time that the attempt has taken so far."""
        return Timings(first_token=self.first_token, total=self._elapsed())


def model_request(request: Request) -> ModelRequest:
    """Convert an assembled request to the request type of the model layer."""
    return ModelRequest(
        model=request.model,
        messages=tuple({"role": said.role, "content": said.content} for said in request.messages),
        tools=request.tools,
        parameters=request.parameters,
    )
