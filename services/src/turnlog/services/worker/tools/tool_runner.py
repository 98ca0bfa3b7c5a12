"""The tools of a turn: pinned when it first needs them, and run before its next call.

Tools run under the attempt at the next call, so its heartbeat covers them and no other worker runs
them. The start of a tool is on the log before the tool runs. A tool that was started and has no
result runs again only if the blueprint or its server says that it is idempotent. For any other the
model is told that the outcome is unknown, and so it is if a server broke off or took too long. A
tool that a person refused returns at once, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Final, Literal

import structlog
from pydantic import JsonValue

from turnlog.events.content import Digest, compute_digest, encode_canonical
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ToolCalled,
    ToolPin,
    ToolReturned,
    ToolsSnapshotted,
)
from turnlog.events.store.ports import TurnBlobStore
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.bounded_json import parse_tool_arguments
from turnlog.projections.blueprint.schema.tool_specs import ToolsSpec
from turnlog.projections.prompt.budget.admission_limits import find_definition_limit
from turnlog.projections.prompt.sources.tool_sources import has_tools
from turnlog.projections.quotas.media_limits import MediaLimitReached
from turnlog.projections.session.commands import ReturnTool, SnapshotTools, StartTool
from turnlog.projections.session.open_turn import is_before_first_call, list_pending_tools
from turnlog.projections.session.rules.attempt_events import find_claimed_turn
from turnlog.projections.session.rules.event_leaves import list_work_leaves
from turnlog.projections.session.rules.steps.approval_rules import (
    EDITED_NOTE,
    apply_edit,
    describe_refusal,
)
from turnlog.projections.session.rules.steps.tool_rules import (
    LOST_DETAIL,
    MALFORMED_DETAIL,
    UNAPPROVED_DETAIL,
    may_run_tool,
    refuse_tool_call,
    report_lost_tool,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.tool_uses import DecidedApproval, ToolUse
from turnlog.projections.tools.result_condensation import build_result_texts
from turnlog.projections.tools.tool_list_changes import compare_tool_lists
from turnlog.services.caches.text_cache import read_event
from turnlog.services.extensions.tool_context import ToolContext, use_tool_context
from turnlog.services.platform.concurrency import run_text_work
from turnlog.services.platform.telemetry.traces import Tracing, record_failure
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.worker.media_room import MediaRoom, MediaShare
from turnlog.services.worker.tools.result_media import store_result_media
from turnlog.services.worker.tools.result_room import use_result_share
from turnlog.services.worker.tools.stored_results import store_result
from turnlog.services.worker.tools.tool_server_types import (
    ToolAnswer,
    ToolServerFailure,
    ToolServers,
    format_detail,
    list_attached_lines,
)
from turnlog.services.worker.tools.tool_snapshots import (
    SnapshotRequest,
    ToolSnapshots,
    log_server_failure,
)
from turnlog.services.worker.turn_context import (
    AttemptSuperseded,
    TurnContext,
    append_command,
)

WITHHELD_DETAIL: Final = "the reason is withheld by the rule"

_log = structlog.get_logger("turnlog.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """A tool whose start is recorded, with its pin and its arguments."""

    use: ToolUse
    called: ToolCalled
    """The request, with the arguments that a person approved."""
    pin: ToolPin
    arguments: dict[str, JsonValue]
    ran: Digest | None
    """Digest of the arguments, if a person approved them."""
    is_edited: bool
    """Whether a person edited them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRunner:
    """Pins and runs the tools of turns."""

    sessions: CommandHandler
    blobs: TurnBlobStore
    servers: ToolServers
    tool_snapshots: ToolSnapshots
    report_run: Callable[[str], Awaitable[None]]
    """Called with the name of each tool before it runs."""
    find_violation: Callable[[str], Awaitable[str | None]]
    """Returns the rule that a result breaks, with the reason, or None."""
    find_context_tokens: Callable[[TurnContext], Awaitable[int | None]]
    """Returns what the model of a turn takes by a file of dialects; None if none says so."""
    tracing: Tracing
    result_room: MediaRoom
    """Room for the results that have arrived and are not stored yet, of all turns of a worker."""

    async def run_pending_tools(self, context: TurnContext) -> TurnContext:
        """Run the pending tools, and return the turn after that.

        Raises `ToolServerFailure` if a server cannot be reached, and `AttemptSuperseded` if the
        attempt lost its lease.
        """
        spec = context.material.blueprint.tools
        if spec is None or not has_tools(context.material, context.state):
            return context
        context = await self._pin_tools(context, spec)
        state = context.state
        opened, pinned = find_claimed_turn(state, context.attempt), state.tools.get(state.profile)
        if opened is None or pinned is None:
            return context
        pending, pins = list_pending_tools(opened), pinned.tools
        # Reads run at the same time. A tool that changes something runs alone, in its turn.
        for is_read, uses in groupby(pending, lambda use: pins[use.tool].idempotent):
            batch = tuple(uses)
            for some in (batch,) if is_read else ((use,) for use in batch):
                context = await self._run_tools(context, some, spec)
        return context

    async def _pin_tools(self, context: TurnContext, spec: ToolsSpec) -> TurnContext:
        """Pin the tools of the profile, or find out before a turn whether they have changed."""
        state = context.state
        pinned = state.tools.get(state.profile)
        if pinned is not None and not is_before_first_call(context.require_turn()):
            return context
        request = SnapshotRequest(
            servers=self.servers,
            blobs=self.blobs,
            tenant=state.tenant,
            profile=state.profile,
            spec=spec,
            limit=find_definition_limit(
                context.material,
                state.profile,
                context_tokens=await self.find_context_tokens(context),
            ),
        )
        offered = await (
            self.tool_snapshots.snapshot_tools_again(request, pinned)
            if pinned
            else self.tool_snapshots.snapshot_tools(request)
        )
        if offered is None or offered == pinned:
            return context
        command = SnapshotTools(context.attempt, offered, spec.changed_lists == "pin")
        after = await append_command(self.sessions, context, command)
        if pinned and after.state.head != state.head:
            _log_list_change(state, pinned, offered)
        return after

    async def _run_tools(
        self, context: TurnContext, uses: Iterable[ToolUse], spec: ToolsSpec
    ) -> TurnContext:
        """Record the start of each tool, run them at the same time, and record each outcome."""
        pins = context.state.tools[context.state.profile].tools
        begun: list[ToolRun] = []
        for use in uses:
            ready = await self._prepare_run(context.tenant, use, pins[use.tool])
            if isinstance(ready, ToolReturned):
                context = await self._record_return(context, use, ready)
            else:
                await self._record_start(context, ready)
                begun.append(ready)
        runs = (self._run_tool(context.state, each, spec) for each in begun)
        # All are waited for, also where one cannot be recorded.
        ends = await asyncio.gather(*runs, return_exceptions=True)
        for each, end in zip(begun, ends, strict=True):
            if isinstance(end, BaseException):
                raise end
            context = await self._record_return(context, each.use, end)
        return context

    async def _prepare_run(self, tenant: str, use: ToolUse, pin: ToolPin) -> ToolRun | ToolReturned:
        """Return what a tool is run with, or its outcome where it must not run."""
        asked = await read_event(self.sessions.log, tenant, use.asked.place, ToolCalled)
        decided = await self._read_decision(tenant, use)
        if decided and decided.decision == "refuse":
            return refuse_tool_call(asked, describe_refusal(decided))
        called = apply_edit(asked, decided)
        ran = compute_digest(called.arguments) if decided else None
        if decided and decided.approved not in {None, ran}:
            return refuse_tool_call(called, UNAPPROVED_DETAIL)
        arguments = parse_tool_arguments(called.arguments)
        if arguments is None:
            return refuse_tool_call(called, MALFORMED_DETAIL)
        if not may_run_tool(use, pin):
            return report_lost_tool(called)
        is_edited = called is not asked
        return ToolRun(
            use=use, called=called, pin=pin, arguments=arguments, ran=ran, is_edited=is_edited
        )

    async def _read_decision(self, tenant: str, use: ToolUse) -> ApprovalDecided | None:
        if not isinstance(use.approval, DecidedApproval):
            return None
        place = use.approval.decided_at
        return await read_event(self.sessions.log, tenant, place, ApprovalDecided)

    async def _record_start(self, context: TurnContext, run: ToolRun) -> None:
        use = run.use
        start = StartTool(context.attempt, use, run.ran)
        begun = await self.sessions.handle(context.tenant, context.session, start, context.by)
        if not begun.events:
            raise AttemptSuperseded
        await self.report_run(use.tool)

    async def _run_tool(self, state: SessionState, run: ToolRun, spec: ToolsSpec) -> ToolReturned:
        clock = asyncio.get_running_loop()
        since = clock.time()
        called = run.called
        with self.result_room.open_share() as share:
            with (
                self.tracing.start_tool_span(state.session, called.tool, called.id) as span,
                use_tool_context(_build_context(state, run)),
            ):
                answered = await self._call_server(run, spec, share)
                if answered.failed:
                    record_failure(span, "tool_unsure" if answered.unsure else "tool_failed")
            taken = round((clock.time() - since) * 1000)
            await share.reserve(max(answered.size, share.size))
            answered = await self._guard_answer(answered)
            returned = await self._build_return(state, run, answered, spec)
        return returned.model_copy(update={"milliseconds": taken})

    async def _guard_answer(self, answered: ToolAnswer) -> ToolAnswer:
        """Replace a result that breaks a rule; its text is not kept."""
        violation = await self.find_violation(answered.text)
        if violation is None and (names := _list_unwritten_names(answered)):
            violation = await self.find_violation(names)
        if violation is None:
            withheld = answered.detail and await self.find_violation(answered.detail)
            return (
                replace(answered, detail=f"{WITHHELD_DETAIL} {withheld}") if withheld else answered
            )
        done = "" if answered.failed else "it was done, but "
        text = f"{done}its result is withheld by the rule {violation}"
        return replace(answered, text=text, detail=text if answered.failed else "", media=())

    async def _call_server(self, run: ToolRun, spec: ToolsSpec, share: MediaShare) -> ToolAnswer:
        """Call a server once; the model is told of a failure, and the call is not repeated.

        The time limit is that of the server, and is over once its result has arrived.
        """
        pin = run.pin
        seconds = spec.get_call_seconds(pin.server)
        try:
            async with asyncio.timeout(seconds) as limit:
                is_prompt = pin.kind == "prompt"
                request = self.servers.get_prompt if is_prompt else self.servers.call_tool
                server = spec.servers[pin.server]
                with use_result_share(share, partial(limit.reschedule, None)):
                    answered = await request(pin.server, server, pin.tool, run.arguments)
        except TimeoutError as late:
            reason = f"no answer in {seconds:g} s"
            detail = format_detail(reason, list_attached_lines(late))
            return ToolAnswer(reason, failed=True, unsure=True, detail=detail)
        except ToolServerFailure as failure:
            log_server_failure(failure)
            unsure, detail = failure.was_requested, failure.detail
            return ToolAnswer(failure.reason, failed=True, unsure=unsure, detail=detail)
        size = len(answered.text.encode())
        return (
            answered if size <= spec.most_bytes else _replace_oversized(answered, size, pin, spec)
        )

    async def _build_return(
        self, state: SessionState, run: ToolRun, answered: ToolAnswer, spec: ToolsSpec
    ) -> ToolReturned:
        called, pin, tenant = run.called, run.pin, state.tenant
        media, leaves = self.sessions.texts.media.store, list_work_leaves(state, run.called.turn)
        store = partial(store_result, blobs=self.blobs, media=media, tenant=tenant, leaves=leaves)
        try:
            stored = await store(text=answered.text)
        except MediaLimitReached as reached:
            answered = _replace_result(
                answered, f"its result was not stored: {reached.detail}", pin
            )
            stored = await store(text=answered.text)
        text, outcome = answered.text, _find_outcome(answered, pin)
        may_be_done = answered.unsure and pin.kind == "tool"
        request = ToolRequest(id=called.id, tool=called.tool, arguments=called.arguments)
        note = stored.note + ("; it may have been done" if may_be_done else "")
        note += f"\n({EDITED_NOTE})" if run.is_edited else ""
        build = partial(
            build_result_texts,
            request=request,
            result=text,
            digest=stored.digest,
            outcome=outcome,
            spec=spec.distil,
            note=note,
        )
        texts = await run_text_work(build, len(text))
        if texts.treatment != "kept":
            log_fields = {"call": called.call, "tool": called.tool, "characters": len(text)}
            _log.info("tool-result-condensed", treatment=texts.treatment, **log_fields)
        if answered.detail:
            _log.warning("tool-failed", call=called.call, tool=called.tool, why=answered.detail)
        return ToolReturned(
            turn=called.turn,
            call=called.call,
            id=called.id,
            tool=called.tool,
            outcome=outcome,
            detail=_describe_outcome(answered, outcome),
            text=texts.text,
            brief=texts.brief,
            summary=texts.summary,
            result=stored.blob,
            characters=len(text),
            treatment=texts.treatment,
            parts=await store_result_media(
                store=media,
                tenant=tenant,
                media=answered.media,
                at=texts.text.characters,
                leaves=leaves,
            ),
            whole=stored.whole,
        )

    async def _record_return(
        self, context: TurnContext, use: ToolUse, returned: ToolReturned
    ) -> TurnContext:
        command = ReturnTool(context.attempt, use, returned)
        context = await append_command(self.sessions, context, command)
        context.require_turn()  # Nothing more is run for an attempt that has lost its lease.
        return context


def _log_list_change(
    state: SessionState, pinned: ToolsSnapshotted, offered: ToolsSnapshotted
) -> None:
    changed = compare_tool_lists(pinned, offered, "not_pinned")
    if changed is not None:
        names = {word: [*getattr(changed, word)] for word in ("added", "removed", "changed")}
        _log.warning("tool-list-changed", session=state.session, profile=pinned.profile, **names)


def _build_context(state: SessionState, run: ToolRun) -> ToolContext:
    """Return the context of a tool call, by the event that requested it."""
    asked = run.use.asked
    identity: list[JsonValue] = [state.tenant, state.session, asked.sequence, run.use.id]
    key = compute_digest(encode_canonical(identity))
    return ToolContext(state.session, run.called.turn, key, state.attributes)


def _list_unwritten_names(answered: ToolAnswer) -> str:
    """Return the names of media that the text does not have: that of a large result is replaced."""
    names = [text for each in answered.media for text in (each.name, each.media_type) if text]
    return "\n".join(name for name in names if name not in answered.text)


def _replace_oversized(
    answered: ToolAnswer, size: int, pin: ToolPin, spec: ToolsSpec
) -> ToolAnswer:
    return _replace_result(
        answered, f"its result has {size} bytes, {spec.most_bytes} are allowed", pin
    )


def _replace_result(answered: ToolAnswer, why: str, pin: ToolPin) -> ToolAnswer:
    """Replace a result by a message; it counts as failed only if it may be repeated."""
    done = "" if answered.failed else "it was done, but "
    return replace(answered, text=done + why, failed=answered.failed or pin.idempotent)


def _describe_outcome(answered: ToolAnswer, outcome: str) -> str:
    """Return why a tool failed or was lost, for people."""
    if outcome != "lost":
        return answered.detail
    return f"{LOST_DETAIL}: {answered.detail}" if answered.detail else LOST_DETAIL


def _find_outcome(answered: ToolAnswer, pin: ToolPin) -> Literal["answered", "failed", "lost"]:
    """Return the outcome of a tool; an idempotent one has failed even if it may have run."""
    if answered.unsure and not pin.idempotent:
        return "lost"
    return "failed" if answered.failed else "answered"
