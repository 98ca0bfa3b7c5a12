"""Run one attempt: prepare the state, prepare the call, and ask the model.

Whatever goes wrong is the end of the attempt and is returned. Only a lost lease is raised, since
then there is nothing left to end.
"""

from __future__ import annotations

import asyncio
from asyncio import timeout
from dataclasses import dataclass

from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.session.state import SessionState
from turnlog.services.blueprints.resolver_contract import ResolverFailure
from turnlog.services.platform.telemetry import Tracing, record_answer, record_failure
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.history_handler import CommandMetadata
from turnlog.services.worker.attempts import attempt_log
from turnlog.services.worker.attempts.active_attempt import ActiveAttempt, build_model_request
from turnlog.services.worker.attempts.attempt_outcomes import AttemptEnd
from turnlog.services.worker.attempts.call_context import (
    CallContextBuilder,
    PreparedCall,
    describe_turn_work,
    list_prior_results,
)
from turnlog.services.worker.attempts.output_guard import GuardViolation, build_guard
from turnlog.services.worker.attempts.resolver_step import ResolverStep, UnroutableTurn
from turnlog.services.worker.attempts.summary_step import SummaryStep, compute_time_limit
from turnlog.services.worker.model.model_types import FinishedAnswer, LanguageModel, ModelFailure
from turnlog.services.worker.tools.tool_runner import ToolRunner, ToolSnapshots
from turnlog.services.worker.tools.tool_servers import ToolServerFailure, ToolServers


@dataclass(frozen=True, slots=True)
class CallRunner:
    """Makes the calls of turns."""

    sessions: CommandHandler
    contexts: CallContextBuilder
    servers: ToolServers
    tool_snapshots: ToolSnapshots
    model: LanguageModel
    tracing: Tracing

    async def run_call(
        self, speaking: ActiveAttempt, state: SessionState, seconds: float, by: CommandMetadata
    ) -> AttemptEnd:
        """Wait, prepare the call and make it; raises `AttemptSuperseded` if the lease is lost."""
        await speaking.publish_start()
        await asyncio.sleep(seconds)
        try:
            if await self._is_unroutable(speaking, state, by):
                return UnroutableTurn()
            state = await self._prepare_state(speaking, state, by)
            prepared = await self.contexts.prepare_call(
                state, speaking.attempt, speaking.material, by
            )
            return await self._stream_in_time(
                speaking, prepared, compute_time_limit(speaking, state.profile)
            )
        except (ModelFailure, ResolverFailure, ToolServerFailure, Refused, Corrupt) as end:
            return end

    async def _is_unroutable(
        self, speaking: ActiveAttempt, state: SessionState, by: CommandMetadata
    ) -> bool:
        """Ask the resolver, if there is one; its answer becomes the fallback of the model's."""
        material, resolving = speaking.material, ResolverStep(self.sessions)
        resolved = await resolving.resolve_turn(state, speaking.attempt, material, by)
        if resolved is None:
            return False
        if material.blueprint.calls[material.find_call_kind(state)].fallback:
            speaking.fallback = await resolving.fetch_answer(speaking.tenant, resolved)
        return resolved.entity is None

    async def _prepare_state(
        self, speaking: ActiveAttempt, state: SessionState, by: CommandMetadata
    ) -> SessionState:
        """Run the requested tools; what the call is for depends on their results."""
        blobs, material = self.contexts.blobs, speaking.material
        tooling = ToolRunner(
            self.sessions,
            blobs,
            self.servers,
            self.tool_snapshots,
            speaking.attempt,
            by,
            speaking.publish_tool_run,
        )
        state = await tooling.run_pending_tools(state, material)
        summing = SummaryStep(self.sessions, self.contexts)
        state = await summing.begin_due_summary(state, speaking.attempt, material, by)
        taken = state.tools.get(state.profile)
        speaking.tools = frozenset(taken.tools if taken else ())
        await speaking.publish_stage(material.find_stage(state))
        if speaking.stage == "plan":
            speaking.prior_results = list_prior_results(material, state)
        if speaking.stage == "reply":
            speaking.guard = build_guard(material)
            speaking.work = await self._load_work(speaking, state)
        return state

    async def _load_work(self, speaking: ActiveAttempt, state: SessionState) -> str | None:
        if state.open is None:
            return None
        texts, blueprint = self.sessions.texts, speaking.material.blueprint
        return await describe_turn_work(texts, speaking.tenant, state.open, blueprint)

    async def _stream_in_time(
        self, speaking: ActiveAttempt, prepared: PreparedCall, seconds: float | None
    ) -> FinishedAnswer | GuardViolation:
        try:
            async with timeout(seconds):
                return await self._stream_answer(speaking, prepared)
        except TimeoutError:
            if seconds is None:
                raise
            late = f"no whole answer in {seconds:g} s, and the turn goes on without"
            raise ModelFailure("timeout_total", late) from None

    async def _stream_answer(
        self, speaking: ActiveAttempt, prepared: PreparedCall
    ) -> FinishedAnswer | GuardViolation:
        request = build_model_request(prepared.request)
        speaking.manifest = prepared.manifest
        attempt_log.log_exclusions(speaking, prepared.manifest)
        call = prepared.attempt.call
        with self.tracing.start_chat_span(speaking.session, call, request.model) as span:
            try:
                finished = await speaking.stream_answer(prepared.attempt, request, self.model)
            except ModelFailure as failure:
                record_failure(span, failure.code)
                raise
            if isinstance(finished, GuardViolation):
                record_answer(span, "safety", None)
            else:
                record_answer(span, finished.finish_reason, finished.usage)
            return finished
