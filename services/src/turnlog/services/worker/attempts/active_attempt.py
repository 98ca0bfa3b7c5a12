"""One attempt at a call: send a request and publish the answer token by token.

The attempt ends with an answer, with a failure, or from outside. In each case its progress holds
the text that arrived and the time it took, and the provider's connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from turnlog.events.content import compute_digest, encode_canonical
from turnlog.events.jetstream.nats_connection import wait_backoff
from turnlog.events.model.attempt_figures import AttemptTimings, AttemptUsage
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.manifest import Manifest
from turnlog.events.recorded_reasoning import WITHHELD_MARK
from turnlog.events.store.ports import TokenStream
from turnlog.events.tokens import (
    AttemptAbandoned,
    AttemptAlive,
    AttemptClosed,
    AttemptReset,
    ReasoningPiece,
    Token,
    TokenEvent,
    ToolRequest,
    WorkerActivity,
)
from turnlog.projections.blueprint.schema.call_specs import OutputSpec
from turnlog.projections.blueprint.schema.timeout_specs import TimeoutSpec
from turnlog.projections.blueprint.schema.tool_specs import ToolsSpec
from turnlog.projections.prompt.sources.offered_tools import list_own_names
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.quotas.media_limits import MediaLimitReached
from turnlog.projections.session.commands import AttemptRef
from turnlog.projections.session.next_call import CallStage
from turnlog.projections.session.rules.outcome_commands import AttemptReport
from turnlog.projections.tools.step_tools import StepToolRoom
from turnlog.services.media.incoming_media import format_media_line
from turnlog.services.worker.attempts.answer_parts import AnswerMediaIntake, format_unstored_line
from turnlog.services.worker.attempts.call_context import PreparedCall
from turnlog.services.worker.attempts.output_guard import GuardViolation, OutputGuard
from turnlog.services.worker.model.answers.reasoning_joiner import (
    MAX_RECORD_BYTES,
    ReasoningJoiner,
    measure_json_bytes,
)
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    LanguageModel,
    MediaDelta,
    ModelFailure,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
)
from turnlog.services.worker.turn_context import TurnContext


def _read_clock() -> float:
    """Return the event loop's time, which the timeouts of the attempt also use."""
    return asyncio.get_running_loop().time()


REPLY_STAGES: Final = frozenset({"loop", "reply"})
"""The stages whose answer may be the reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSetup:
    """What a call is for, known once the requested tools have run."""

    stage: CallStage
    """Only the text of `REPLY_STAGES` is shown to subscribers."""
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names of the tools of servers, by the names that models know them by."""
    prior_results: Mapping[str, int] = field(default_factory=dict[str, int])
    """Results of the previous turn that a plan may reuse, each with its event sequence."""
    tool_room: StepToolRoom | None = None
    """What the steps of a plan have room for; None if nothing limits their tools."""
    work: str | None = None
    """How the turn was worked out, if this may be the reply and later prompts show it."""
    has_used_rounds: bool = False
    """Whether the turn has had its rounds of tool calls."""
    children: frozenset[str] = frozenset()
    """The child profiles that the call offers as tools."""


@dataclass(frozen=True, slots=True)
class SentCall:
    """A call as it was sent to the model."""

    attempt: AttemptRef
    request: ModelRequest
    manifest: Manifest | None = None


@dataclass(slots=True, kw_only=True)
class AttemptProgress:
    """How far an attempt has come, and what came back."""

    setup: CallSetup
    fallback: str | None = None
    """The reply if no model answers; None if the turn fails then."""
    guard: OutputGuard = field(default_factory=lambda: OutputGuard(hold_back="none", rules=()))
    sent: SentCall | None = None
    reasoning: ReasoningJoiner = field(default_factory=ReasoningJoiner)
    """What the model reasoned so far."""
    reasoning_length: int = 0
    """Number of its characters that were published."""
    withheld_by: str | None = None
    """The rule that the text of the reasoning breaks."""
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files of the answer so far; its text has a line for each."""
    follows_part: bool = False
    """Whether the text ends with the line of a part, so that what follows begins another one."""
    first_token: int | None = None
    finished: FinishedAnswer | None = None
    """How the model ended, once it has."""
    started: float = field(default_factory=_read_clock)

    def measure_elapsed(self) -> int:
        """Return the milliseconds since the request was sent."""
        return round((_read_clock() - self.started) * 1000)


@dataclass(frozen=True, slots=True)
class TokenPublisher:
    """Publishes the token events of one turn."""

    tokens: TokenStream
    tenant: str
    session: str
    turn: int

    async def publish_start(self, attempt: AttemptRef, *, is_retry: bool) -> None:
        """Publish that an attempt has started; on a retry, the text of earlier ones is void."""
        sign = AttemptReset if is_retry else AttemptAlive
        await self._publish(sign(call=attempt.call, attempt=attempt.attempt))

    async def publish_activity(
        self, attempt: AttemptRef, doing: WorkerActivity | None, tool: str | None = None
    ) -> None:
        """Publish that an attempt is alive, and what it is doing if that is given."""
        await self._publish(
            AttemptAlive(call=attempt.call, attempt=attempt.attempt, doing=doing, tool=tool)
        )

    async def publish_text(self, attempt: AttemptRef, offset: int, text: str) -> None:
        """Publish the next piece of a reply."""
        await self._publish(
            Token(call=attempt.call, attempt=attempt.attempt, offset=offset, text=text)
        )

    async def publish_reasoning(self, attempt: AttemptRef, offset: int, text: str) -> None:
        """Publish the next piece of what a model reasons."""
        await self._publish(
            ReasoningPiece(call=attempt.call, attempt=attempt.attempt, offset=offset, text=text)
        )

    async def confirm_closing(self, closed: AttemptClosed) -> None:
        """Publish the closing message, and wait until it is stored."""
        await self.tokens.publish_and_confirm(self.tenant, self.session, self.turn, closed)

    async def confirm_abandoning(self, attempt: AttemptRef, seconds: float) -> None:
        """Publish that nothing more is done for an attempt; try for so many seconds.

        After `seconds` its silence says the same.
        """
        event = AttemptAbandoned(call=attempt.call, attempt=attempt.attempt)
        clock = asyncio.get_running_loop()
        ends, failures = clock.time() + seconds, 0
        while not await self.tokens.publish_and_confirm(
            self.tenant, self.session, self.turn, event
        ):
            if clock.time() > ends:
                return
            await wait_backoff(failures)
            failures += 1

    async def _publish(self, event: TokenEvent) -> None:
        await self.tokens.publish_token(self.tenant, self.session, self.turn, event)


@dataclass(frozen=True, slots=True)
class ActiveAttempt:
    """A running attempt; its progress stays readable after it was cut off."""

    context: TurnContext
    """The turn as it was when the attempt began."""
    progress: AttemptProgress
    publisher: TokenPublisher

    @property
    def attempt(self) -> AttemptRef:
        """The attempt; its call is that of the recorded prompt, once there is one."""
        return self.progress.sent.attempt if self.progress.sent else self.context.attempt

    @property
    def material(self) -> SessionMaterial:
        return self.context.material

    @property
    def stage(self) -> CallStage:
        """What the call is for."""
        return self.progress.setup.stage

    @property
    def manifest(self) -> Manifest | None:
        """The manifest of the call, once it is on the log."""
        return self.progress.sent.manifest if self.progress.sent else None

    @property
    def request(self) -> ModelRequest:
        """The request that is sent; empty until the call is on the log."""
        return (
            self.progress.sent.request
            if self.progress.sent
            else ModelRequest(model="", messages=())
        )

    @property
    def text(self) -> str:
        """Everything the model wrote so far, published or held back."""
        return self.progress.guard.text

    @property
    def output_spec(self) -> OutputSpec | None:
        """The required output format; None if any text is accepted."""
        manifest = self.manifest
        return self.material.blueprint.calls[manifest.kind].output if manifest else None

    @property
    def is_streamed(self) -> bool:
        """Whether the text is published as it arrives; formatted output is parsed as a whole."""
        return self.stage in REPLY_STAGES and self.output_spec is None

    @property
    def timings(self) -> AttemptTimings | None:
        """The time since the request was sent; None if none was sent, only waited for."""
        progress = self.progress
        if progress.sent is None:
            return None
        return AttemptTimings(first_token=progress.first_token, total=progress.measure_elapsed())

    async def publish_start(self) -> None:
        """Publish that this attempt has started."""
        is_retry = self.context.prior_attempts > 0
        await self.publisher.publish_start(self.attempt, is_retry=is_retry)

    async def publish_heartbeat(self) -> None:
        """Publish that this attempt is alive, and whether the model of the reply still thinks.

        Another call has published what it is for, which says more.
        """
        progress, is_reply = self.progress, self.stage in REPLY_STAGES
        is_thinking = is_reply and progress.sent is not None and progress.first_token is None
        await self.publisher.publish_activity(self.attempt, "think" if is_thinking else None)

    async def publish_tool_run(self, tool: str) -> None:
        """Publish that a tool is being run."""
        await self.publisher.publish_activity(self.attempt, "tool", tool)

    async def begin_stage(self, setup: CallSetup) -> None:
        """Set what the call is for; publish it if the turn has more calls than its reply."""
        self.progress.setup = setup
        if setup.stage not in REPLY_STAGES or self.context.has_prior_calls:
            doing = "reply" if setup.stage == "loop" else setup.stage
            await self.publisher.publish_activity(self.attempt, doing)

    async def stream_answer(
        self, sent: SentCall, model: LanguageModel, media: AnswerMediaIntake
    ) -> FinishedAnswer | GuardViolation:
        """Make the call and publish what the guard releases; raises `ModelFailure`.

        Pictures, recordings and files are stored as they come.
        """
        progress = self.progress
        progress.sent, progress.started = sent, _read_clock()
        is_streamed, guard = self.is_streamed, progress.guard
        async with aclosing(model.stream(sent.request)) as stream:
            async for piece in stream:
                if isinstance(piece, ReasoningDelta):
                    await self._add_reasoning(piece)
                    continue
                chunk = self._restore_tool_names(piece)
                released = await self._add_chunk(chunk, media)
                if isinstance(released, GuardViolation):
                    return released
                if released and is_streamed:
                    offset = guard.shown_length - len(released)
                    await self.publisher.publish_text(sent.attempt, offset, released)
                if isinstance(chunk, FinishedAnswer):
                    return chunk
        raise ModelFailure("incomplete", "the stream ended without a word")

    async def _add_reasoning(self, piece: ReasoningDelta) -> None:
        """Keep a piece of the reasoning; publish it where no rule could forbid it."""
        progress = self.progress
        progress.reasoning.add_piece(piece.fields)
        if piece.text and self.stage in REPLY_STAGES and not progress.guard.rules:
            place = progress.reasoning_length
            await self.publisher.publish_reasoning(self.attempt, place, piece.text)
            progress.reasoning_length += len(piece.text)

    async def _add_chunk(
        self, chunk: TextDelta | MediaDelta | FinishedAnswer, media: AnswerMediaIntake
    ) -> str | GuardViolation:
        progress = self.progress
        if isinstance(chunk, FinishedAnswer):
            progress.finished = chunk
            for call in chunk.tool_calls:
                for written in filter(None, (call.arguments, call.signature)):
                    if violation := await progress.guard.check_json(written):
                        return violation
            return await progress.guard.release_rest()
        if progress.first_token is None:
            progress.first_token = progress.measure_elapsed()
        if isinstance(chunk, MediaDelta):
            return await progress.guard.add_text(await self._store_part(chunk, media))
        text = f"\n{chunk.text}" if progress.follows_part else chunk.text
        progress.follows_part = False
        return await progress.guard.add_text(text)

    async def _store_part(self, delta: MediaDelta, media: AnswerMediaIntake) -> str:
        """Store a picture, a recording or a file, and return the line in its place."""
        progress, text = self.progress, self.text
        if not self.is_streamed and self.stage != "act":
            detail = f"the answer has media ({delta.media_type}), and its call requires a text"
            raise ModelFailure("malformed", detail)
        begin = "\n" if text and not text.endswith("\n") else ""
        at = len(text) + len(begin)
        progress.follows_part = True
        try:
            part = await media.store_part(self.context.tenant, delta, at, progress.parts)
        except MediaLimitReached as reached:
            return begin + format_unstored_line(delta, reached)
        progress.parts = (*progress.parts, part)
        return begin + format_media_line(part.name, part.media_type, part.size)

    def _restore_tool_names(
        self, chunk: TextDelta | MediaDelta | FinishedAnswer
    ) -> TextDelta | MediaDelta | FinishedAnswer:
        """Return the end of an answer with the own names of the tools that it calls."""
        if not isinstance(chunk, FinishedAnswer) or not chunk.tool_calls:
            return chunk
        own = list_own_names(self.manifest)
        calls = (replace(call, name=own.get(call.name, call.name)) for call in chunk.tool_calls)
        return replace(chunk, tool_calls=tuple(calls))

    def encode_reasoning(self) -> str:
        """Return what the model reasoned as it is recorded; empty if nothing.

        It has the room that text and tool calls leave: one event, and the message that closes the
        attempt, have them all.
        """
        progress = self.progress
        if progress.withheld_by is not None:
            return encode_canonical({WITHHELD_MARK: progress.withheld_by})
        if not progress.reasoning:
            return ""
        calls = progress.finished.tool_calls if progress.finished else ()
        beside = (self.text, *(each.arguments + each.signature for each in calls))
        return progress.reasoning.encode_record(
            max(0, MAX_RECORD_BYTES - sum(map(measure_json_bytes, beside)))
        )

    def build_report(self, spent: AttemptUsage) -> AttemptReport:
        """Return what the attempt produced, as the session's rules take it."""
        report, children = (
            create_report(self.material, self.attempt, self.stage, spent),
            self.progress.setup.children,
        )
        policy = self.material.blueprint.policies.children
        return replace(
            report,
            text=self.text,
            shown_text=self.text[: self.progress.guard.shown_length] if self.is_streamed else "",
            parts=self.progress.parts,
            reasoning=self.encode_reasoning(),
            model=self.request.model,
            fallback=self.progress.fallback,
            replacement=self.material.get_replacement(self.context.state),
            work=self.progress.setup.work,
            offered_tools=self._list_offered_tools(),
            max_tools=policy.most_at_once if children else report.max_tools,
            children=children,
            has_used_rounds=self.progress.setup.has_used_rounds,
        )

    def _list_offered_tools(self) -> frozenset[str]:
        offered = self.manifest.parts if self.manifest else ()
        known = {*self.progress.setup.tools.values(), *self.progress.setup.children}
        return frozenset(known & {part.layer for part in offered if part.role == "tools"})

    def build_closing_message(self, end: FinishedAnswer, spent: AttemptUsage) -> AttemptClosed:
        """Return the closing message that the published tokens are verified against."""
        timings = spent.timings or AttemptTimings(total=self.progress.measure_elapsed())
        return AttemptClosed(
            call=self.attempt.call,
            attempt=self.attempt.attempt,
            length=len(self.text),
            digest=compute_digest(self.text),
            finish=end.finish_reason,
            usage=spent.usage,
            first_token=timings.first_token,
            total=timings.total,
            tools=list_tool_requests(end),
            response_id=spent.response_id,
            ratings=spent.ratings,
            finish_sent=spent.finish_sent,
            reasoning=self.encode_reasoning() or None,
            parts=self.progress.parts,
        )


def create_report(
    material: SessionMaterial, attempt: AttemptRef, stage: CallStage, spent: AttemptUsage
) -> AttemptReport:
    """Return a report of an attempt that produced nothing, with the rules of its blueprint."""
    blueprint = material.blueprint
    tools = blueprint.tools or ToolsSpec(servers={})
    return AttemptReport(
        attempt=attempt,
        stage=stage,
        spent=spent,
        max_tools=tools.most_calls,
        approval_seconds=tools.approval_seconds,
        excludes_filtered=blueprint.policies.filtered_replies == "exclude",
        failed_policy=blueprint.policies.failed,
        phases=material.phases,
        references=material.references,
    )


def start_attempt(context: TurnContext, tokens: TokenStream) -> ActiveAttempt:
    """Return an attempt that has done nothing yet."""
    stage = context.material.find_stage(context.state)
    turn = context.attempt.turn
    return ActiveAttempt(
        context,
        AttemptProgress(setup=CallSetup(stage=stage)),
        TokenPublisher(tokens, context.tenant, context.session, turn),
    )


def list_tool_requests(end: FinishedAnswer) -> tuple[ToolRequest, ...]:
    """Return the tools that an answer requests, as they are recorded."""
    return tuple(
        ToolRequest(
            id=call.id,
            tool=call.name,
            arguments=call.arguments,
            signature=call.signature or None,
        )
        for call in end.tool_calls
    )


def build_model_request(prepared: PreparedCall, timeouts: TimeoutSpec) -> ModelRequest:
    """Convert an assembled request to the request type of the model layer."""
    request, body = prepared.request, prepared.body
    media = (part for part in prepared.manifest.parts if part.at is not None)
    return ModelRequest(
        model=request.model,
        messages=tuple(
            each.encode_sent(prepared.media) if each.media and body is None else each.encode_plain()
            for each in request.messages
        ),
        media_tokens=sum(part.tokens for part in media),
        tools=request.tools,
        parameters=request.parameters,
        timeouts=timeouts,
        body=body,
    )
