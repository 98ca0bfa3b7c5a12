"""Run one attempt: prepare the state, prepare the call, and ask the model.

Whatever goes wrong is the end of the attempt and is returned. Only a lost lease is raised, since
then there is nothing left to end.
"""

from __future__ import annotations

import asyncio
from asyncio import timeout
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import structlog

from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.manifest import Manifest
from turnlog.projections.knowledge.search_port import KnowledgeSearch
from turnlog.projections.session.next_call import has_used_rounds
from turnlog.projections.session.rules.outcome_commands import TurnUnroutable
from turnlog.projections.session.state import SessionState
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.extensions.resolver_contract import ResolverFailure
from turnlog.services.platform.telemetry.traces import Tracing, record_answer, record_failure
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.worker.attempts.active_attempt import (
    REPLY_STAGES,
    ActiveAttempt,
    CallSetup,
    SentCall,
    build_model_request,
)
from turnlog.services.worker.attempts.attempt_outcomes import AttemptEnd, describe_attempt
from turnlog.services.worker.attempts.call_context import (
    CallContextBuilder,
    PreparedCall,
    describe_turn_work,
    list_prior_results,
)
from turnlog.services.worker.attempts.output_guard import (
    GuardViolation,
    SafetyCheckFailure,
    build_guard,
)
from turnlog.services.worker.attempts.resolver_step import ResolverStep
from turnlog.services.worker.attempts.retrieval_step import (
    KnowledgeFailure,
    RetrievalStep,
    find_fixed_reply,
)
from turnlog.services.worker.attempts.summary_step import SummaryStep, compute_time_limit
from turnlog.services.worker.model.model_types import FinishedAnswer, LanguageModel, ModelFailure
from turnlog.services.worker.tools.tool_runner import ToolRunner, ToolSnapshots
from turnlog.services.worker.tools.tool_servers import ToolServerFailure, ToolServers

_log = structlog.get_logger("turnlog.worker")

_FAILURES: Final = (
    ModelFailure,
    ResolverFailure,
    SafetyCheckFailure,
    ToolServerFailure,
    KnowledgeFailure,
)


@dataclass(frozen=True, slots=True)
class CallRunner:
    """Makes the calls of turns."""

    sessions: CommandHandler
    contexts: CallContextBuilder
    servers: ToolServers
    tool_snapshots: ToolSnapshots
    model: LanguageModel
    knowledge: KnowledgeSearch
    tracing: Tracing

    async def run_call(
        self, active: ActiveAttempt, state: SessionState, seconds: float, by: CommandMetadata
    ) -> AttemptEnd:
        """Wait, prepare the call and make it; raises `AttemptSuperseded` if the lease is lost."""
        await active.publish_start()
        await asyncio.sleep(seconds)
        try:
            if await self._is_unroutable(active, state, by):
                return TurnUnroutable()
            state = await self._prepare_state(active, state, by)
            if reply := find_fixed_reply(active.material, state):
                return reply
            prepared = await self.contexts.prepare_call(state, active.attempt, active.material, by)
            return await self._stream_in_time(
                active, prepared, compute_time_limit(active, state.profile)
            )
        except (*_FAILURES, Refused, Corrupt) as end:
            return end

    async def _is_unroutable(
        self, active: ActiveAttempt, state: SessionState, by: CommandMetadata
    ) -> bool:
        """Ask the resolver, if there is one; its answer becomes the fallback of the model's."""
        material, resolving = active.material, ResolverStep(self.sessions)
        resolved = await resolving.resolve_turn(state, active.attempt, material, by)
        if resolved is None:
            return False
        if material.blueprint.calls[material.find_call_kind(state)].fallback:
            active.progress.fallback = await resolving.fetch_answer(active.context.tenant, resolved)
        return resolved.entity is None

    async def _prepare_state(
        self, active: ActiveAttempt, state: SessionState, by: CommandMetadata
    ) -> SessionState:
        """Run the requested tools; what the call is for depends on their results."""
        blobs, material = self.contexts.blobs, active.material
        guard = build_guard(material)
        tooling = ToolRunner(
            self.sessions,
            blobs,
            self.servers,
            self.tool_snapshots,
            active.attempt,
            by,
            active.publish_tool_run,
            guard.describe_violation,
        )
        state = await tooling.run_pending_tools(state, material)
        retrieval_step = RetrievalStep(
            self.sessions,
            blobs,
            self.knowledge,
            self.contexts.prompt_inputs,
            self.contexts.default_model,
        )
        state = await retrieval_step.run_due_retrievals(state, active.attempt, material, by)
        await self.contexts.check_room(state, active.attempt, material, by)
        summary_step = SummaryStep(self.sessions, self.contexts)
        state = await summary_step.begin_due_summary(state, active.attempt, material, by)
        pinned = state.tools.get(state.profile)
        children = material.blueprint.profiles[state.profile].children
        setup = CallSetup(
            material.find_stage(state),
            frozenset(pinned.tools if pinned else ()),
            children=frozenset(children),
        )
        await active.begin_stage(setup)
        active.progress.guard = guard
        if setup.stage == "plan":
            active.progress.setup = replace(
                setup,
                prior_results=list_prior_results(material, state),
                tool_room=await self.contexts.measure_tool_room(
                    state, active.attempt, material, by
                ),
            )
        if setup.stage in REPLY_STAGES:
            profile = material.blueprint.profiles[state.profile]
            active.progress.setup = replace(
                setup,
                work=await self._load_work(active, state),
                has_used_rounds=has_used_rounds(profile, state.open),
            )
        return state

    async def _load_work(self, active: ActiveAttempt, state: SessionState) -> str | None:
        if state.open is None:
            return None
        texts, blueprint = self.sessions.texts, active.material.blueprint
        return await describe_turn_work(texts, active.context.tenant, state.open, blueprint)

    async def _stream_in_time(
        self, active: ActiveAttempt, prepared: PreparedCall, seconds: float | None
    ) -> FinishedAnswer | GuardViolation:
        try:
            async with timeout(seconds):
                return await self._stream_answer(active, prepared)
        except TimeoutError:
            if seconds is None:
                raise
            late = f"no whole answer in {seconds:g} s, and the turn goes on without"
            raise ModelFailure("timeout_total", late) from None

    async def _stream_answer(
        self, active: ActiveAttempt, prepared: PreparedCall
    ) -> FinishedAnswer | GuardViolation:
        request = build_model_request(prepared.request, prepared.body)
        sent = SentCall(prepared.attempt, request, prepared.manifest)
        _log_exclusions(active, prepared.manifest)
        session = active.context.session
        with self.tracing.start_chat_span(session, sent.attempt.call, request.model) as span:
            try:
                finished = await active.stream_answer(sent, self.model)
            except (ModelFailure, SafetyCheckFailure) as failure:
                record_failure(span, failure.code)
                raise
            if isinstance(finished, GuardViolation):
                record_answer(span, "safety", None)
            else:
                record_answer(span, finished.finish_reason, finished.usage)
            return finished


def _log_exclusions(active: ActiveAttempt, manifest: Manifest) -> None:
    rules = Counter(part.rule for part in manifest.parts if not part.is_included)
    if rules:
        _log.debug("left-out", rules=dict(rules), **describe_attempt(active))
