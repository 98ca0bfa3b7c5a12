"""One attempt at a call: send a request and publish the answer token by token.

The attempt ends with an answer, with a failure, or from outside. In each case this module knows the
text that arrived and the time it took, and the provider's connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from turnlog.events.model.call_events import AttemptTimings
from turnlog.events.model.manifest import Manifest
from turnlog.events.store.ports import TokenStream
from turnlog.events.tokens import AttemptAlive, AttemptReset, Token, WorkerActivity
from turnlog.projections.blueprint.schema.call_specs import OutputSpec
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.session_material import SessionMaterial
from turnlog.projections.session.commands import AttemptRef
from turnlog.projections.session.program import CallStage
from turnlog.services.worker.attempts.output_guard import GuardViolation, OutputGuard
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    LanguageModel,
    ModelFailure,
    ModelRequest,
    TextDelta,
)


def _read_clock() -> float:
    """Return the event loop's time, which the timeouts of the attempt also use."""
    return asyncio.get_running_loop().time()


@dataclass
class ActiveAttempt:
    """An attempt that is running; its fields stay readable after it was cut off."""

    tenant: str
    session: str
    attempt: AttemptRef
    tokens: TokenStream
    material: SessionMaterial
    stage: CallStage = "reply"
    """What the call is for; only the stage `reply` is shown to subscribers."""
    prior_attempts: int = 0
    """Number of earlier attempts at this call."""
    has_prior_calls: bool = False
    """Whether earlier calls of the turn were answered."""
    guard: OutputGuard = field(default_factory=lambda: OutputGuard("none", ()))
    request: ModelRequest = field(default_factory=lambda: ModelRequest("", ()))
    """The request that is sent; empty until the call is on the log."""
    tools: frozenset[str] = frozenset()
    """The tools of servers, by the names that the model sees."""
    prior_results: Mapping[str, int] = field(default_factory=dict[str, int])
    """Results of the previous turn that a plan may reuse, each with its event sequence."""
    work: str | None = None
    """How the turn was worked out, if this is the reply and later prompts show it."""
    manifest: Manifest | None = None
    """The manifest of the call, once it is on the log."""
    fallback: str | None = None
    """The reply if no model answers; None if the turn fails then."""
    first_token: int | None = None
    finished: FinishedAnswer | None = None
    """How the model ended, once it has."""
    _started: float = field(default_factory=_read_clock)

    async def publish_start(self) -> None:
        """Publish that this attempt has started; the text of earlier attempts is void."""
        call, attempt = self.attempt.call, self.attempt.attempt
        sign = AttemptReset if self.prior_attempts else AttemptAlive
        await self.tokens.publish_token(
            self.tenant, self.session, self.attempt.turn, sign(call=call, attempt=attempt)
        )

    async def publish_stage(self, stage: CallStage) -> None:
        """Set what the call is for; publish it if the turn has more calls than its reply."""
        self.stage = stage
        if stage != "reply" or self.has_prior_calls:
            await self._publish_activity(stage)

    async def publish_tool_run(self, tool: str) -> None:
        """Publish that a tool is being run."""
        await self._publish_activity("tool", tool)

    async def _publish_activity(self, doing: WorkerActivity, tool: str | None = None) -> None:
        call, attempt = self.attempt.call, self.attempt.attempt
        sign = AttemptAlive(call=call, attempt=attempt, doing=doing, tool=tool)
        await self.tokens.publish_token(self.tenant, self.session, self.attempt.turn, sign)

    @property
    def output_spec(self) -> OutputSpec | None:
        """The required output format; None if any text is accepted."""
        calls = self.material.blueprint.calls
        return calls[self.manifest.kind].output if self.manifest else None

    @property
    def is_streamed(self) -> bool:
        """Whether the text is published as it arrives; formatted output is parsed as a whole."""
        return self.stage == "reply" and self.output_spec is None

    @property
    def offered_tools(self) -> frozenset[str]:
        """The server tools that the call was offered."""
        offered = self.manifest.parts if self.manifest else ()
        return self.tools & {part.layer for part in offered if part.role == "tools"}

    @property
    def text(self) -> str:
        """Everything the model wrote so far, published or held back."""
        return self.guard.text

    @property
    def shown_text(self) -> str:
        """The part of the text that was published."""
        return self.guard.text[: self.guard.shown_length] if self.is_streamed else ""

    async def stream_answer(
        self, attempt: AttemptRef, request: ModelRequest, model: LanguageModel
    ) -> FinishedAnswer | GuardViolation:
        """Make the call and publish what the guard releases; raises `ModelFailure`."""
        self.attempt, self.request, self._started = attempt, request, _read_clock()
        watched = self.is_streamed
        async with aclosing(model.stream(request)) as stream:
            async for said in stream:
                released = self._add_chunk(said)
                if isinstance(released, GuardViolation):
                    return released
                if released and watched:
                    await self._publish_text(released)
                if isinstance(said, FinishedAnswer):
                    return said
        raise ModelFailure("incomplete", "the stream ended without a word")

    def _add_chunk(self, said: TextDelta | FinishedAnswer) -> str | GuardViolation:
        if isinstance(said, FinishedAnswer):
            self.finished = said
            return self.guard.release_rest()
        if self.first_token is None:
            self.first_token = self._measure_elapsed()
        return self.guard.add_text(said.text)

    async def _publish_text(self, text: str) -> None:
        token = Token(
            call=self.attempt.call,
            attempt=self.attempt.attempt,
            offset=self.guard.shown_length - len(text),
            text=text,
        )
        await self.tokens.publish_token(self.tenant, self.session, self.attempt.turn, token)

    def _measure_elapsed(self) -> int:
        return round((_read_clock() - self._started) * 1000)

    @property
    def timings(self) -> AttemptTimings:
        """The time that the attempt has taken so far."""
        return AttemptTimings(first_token=self.first_token, total=self._measure_elapsed())


def build_model_request(request: ChatRequest) -> ModelRequest:
    """Convert an assembled request to the request type of the model layer."""
    return ModelRequest(
        model=request.model,
        messages=tuple({"role": said.role, "content": said.content} for said in request.messages),
        tools=request.tools,
        parameters=request.parameters,
    )
