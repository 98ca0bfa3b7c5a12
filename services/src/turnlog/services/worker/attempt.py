"""One attempt: a request is sent, and what comes back is published token by token.

The attempt ends with an answer, with a failure, or from outside; whichever it is, the text that
came and the time it took are known here, and the provider's connection is closed.
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
    """Read the clock that everything else of the attempt waits by."""
    return asyncio.get_running_loop().time()


@dataclass
class Speaking:
    """An attempt under way; its fields can be read at any moment, also after it was cut off."""

    tenant: str
    session: str
    attempt: Attempt
    tokens: TokenStream
    material: Material
    stage: Stage = "reply"
    """What the call is for; of one that is not the reply, nothing is shown to anybody."""
    tried: int = 0
    """Attempts at this call before."""
    later: bool = False
    """Whether calls of the turn were answered before this one."""
    guard: Guard = field(default_factory=lambda: Guard("none", ()))
    request: ModelRequest = field(default_factory=lambda: ModelRequest("", ()))
    """What is sent; nothing until the call is on the log."""
    tools: frozenset[str] = frozenset()
    """Tools that servers have, by the names a model knows them by."""
    given: Mapping[str, int] = field(default_factory=dict[str, int])
    """Results of the turn before that a plan can point at, with the sequences they stand at."""
    work: str | None = None
    """How the turn was worked out, where it is replied to and later ones are told."""
    manifest: Manifest | None = None
    """What is known of it, from then on."""
    fallback: str | None = None
    """What is answered where no model answers; none where the turn fails then."""
    first_token: int | None = None
    finished: Finished | None = None
    """How the model ended, once it has."""
    _started: float = field(default_factory=_now)

    async def announce(self) -> None:
        """Tell watchers that this attempt is there; what earlier ones said is void."""
        call, attempt = self.attempt.call, self.attempt.attempt
        sign = AttemptReset if self.tried else AttemptAlive
        await self.tokens.publish(
            self.tenant, self.session, self.attempt.turn, sign(call=call, attempt=attempt)
        )

    async def begins(self, stage: Stage) -> None:
        """Say what the call is for; watchers are told where the turn is more than its reply."""
        self.stage = stage
        if stage != "reply" or self.later:
            await self._tell(stage)

    async def runs(self, tool: str) -> None:
        """Tell watchers that a tool is run."""
        await self._tell("tool", tool)

    async def _tell(self, doing: Doing, tool: str | None = None) -> None:
        call, attempt = self.attempt.call, self.attempt.attempt
        sign = AttemptAlive(call=call, attempt=attempt, doing=doing, tool=tool)
        await self.tokens.publish(self.tenant, self.session, self.attempt.turn, sign)

    @property
    def output(self) -> OutputSpec | None:
        """The form that the answer must have; none where any will do."""
        calls = self.material.blueprint.calls
        return calls[self.manifest.kind].output if self.manifest else None

    @property
    def watched(self) -> bool:
        """Whether what is said is shown as it comes; what must have a form is known whole only."""
        return self.stage == "reply" and self.output is None

    @property
    def offered(self) -> frozenset[str]:
        """The tools it was offered that servers have."""
        offered = self.manifest.parts if self.manifest else ()
        return self.tools & {part.layer for part in offered if part.role == "tools"}

    @property
    def text(self) -> str:
        """Everything the model said so far, shown or held back."""
        return self.guard.text

    @property
    def shown(self) -> str:
        """What was published of it."""
        return self.guard.text[: self.guard.shown] if self.watched else ""

    async def listen(
        self, attempt: Attempt, request: ModelRequest, model: Model
    ) -> Finished | Violation:
        """Make the call and publish what may be said; raises `ModelFailure`."""
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
        """How long it has taken so far."""
        return Timings(first_token=self.first_token, total=self._elapsed())


def model_request(request: Request) -> ModelRequest:
    """Hand an assembled request over as the model layer takes it."""
    return ModelRequest(
        model=request.model,
        messages=tuple({"role": said.role, "content": said.content} for said in request.messages),
        tools=request.tools,
        parameters=request.parameters,
    )
