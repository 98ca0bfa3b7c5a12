"""Run one attempt: prepare the state, prepare the call, and ask the model.

Whatever goes wrong is the end of the attempt and is returned. Only a lost lease is raised, since
then there is nothing left to end.
"""

from __future__ import annotations

import asyncio
from asyncio import timeout
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, assert_never

import structlog

from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.manifest import Manifest
from turnlog.projections.knowledge.search_port import KnowledgeSearch
from turnlog.projections.prompt.assemble import PlannedPrompt
from turnlog.projections.session.next_call import has_used_rounds
from turnlog.projections.session.rules.event_leaves import list_work_leaves
from turnlog.projections.session.rules.outcome_commands import TurnUnroutable
from turnlog.projections.tools.tool_aliases import list_model_names
from turnlog.services.extensions.resolver_contract import ResolverFailure
from turnlog.services.platform.concurrency import run_text_work
from turnlog.services.platform.telemetry.traces import (
    Tracing,
    record_answer,
    record_failure,
    record_prompt,
    record_withheld_answer,
)
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.worker.attempts.active_attempt import (
    ActiveAttempt,
    CallSetup,
    SentCall,
    build_model_request,
)
from turnlog.services.worker.attempts.answer_parts import AnswerMediaIntake
from turnlog.services.worker.attempts.attempt_outcomes import AttemptEnd, describe_attempt
from turnlog.services.worker.attempts.call_context import (
    CallContextBuilder,
    PreparedCall,
    describe_turn_work,
    list_prior_results,
)
from turnlog.services.worker.attempts.output_guard import (
    GuardViolation,
    OutputGuard,
    SafetyCheckFailure,
    load_guard,
)
from turnlog.services.worker.attempts.resolver_step import ResolverStep
from turnlog.services.worker.attempts.retrieval_step import (
    KnowledgeFailure,
    RetrievalStep,
    find_fixed_reply,
)
from turnlog.services.worker.attempts.summary_step import SummaryStep, compute_time_limit
from turnlog.services.worker.model.model_types import FinishedAnswer, LanguageModel, ModelFailure
from turnlog.services.worker.model.provider_keys import ProviderKeys
from turnlog.services.worker.tools.tool_runner import ToolRunner
from turnlog.services.worker.tools.tool_server_types import ToolServerFailure, ToolServers
from turnlog.services.worker.tools.tool_snapshots import ToolSnapshots
from turnlog.services.worker.turn_context import TurnContext

_log = structlog.get_logger("turnlog.worker")

_FAILURES: Final = (
    ModelFailure,
    ResolverFailure,
    SafetyCheckFailure,
    ToolServerFailure,
    KnowledgeFailure,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRunner:
    """Makes the calls of turns."""

    sessions: CommandHandler
    contexts: CallContextBuilder
    servers: ToolServers
    tool_snapshots: ToolSnapshots
    model: LanguageModel
    knowledge: KnowledgeSearch
    tracing: Tracing
    provider_keys: ProviderKeys | None = None
    """The tenants' own keys of providers."""

    async def run_call(self, active: ActiveAttempt, seconds: float) -> AttemptEnd:
        """Wait, prepare the call and make it; raises `AttemptSuperseded` if the lease is lost."""
        await active.publish_start()
        await asyncio.sleep(seconds)
        try:
            if await self._is_unroutable(active):
                return TurnUnroutable()
            _check_quota(active.context)
            context, planned = await self._prepare_state(active)
            if reply := find_fixed_reply(context.material, context.state):
                return reply
            with self.contexts.media_room.open_share() as share:
                prepared = await self.contexts.prepare_call(context, planned, share)
                return await self._stream_in_time(active, prepared, compute_time_limit(active))
        except (*_FAILURES, Refused, Corrupt) as end:
            return end

    async def _is_unroutable(self, active: ActiveAttempt) -> bool:
        """Ask the resolver, if there is one; its answer becomes the fallback of the model's."""
        context, resolving = active.context, ResolverStep(self.sessions)
        resolved = await resolving.resolve_turn(context)
        if resolved is None:
            return False
        kind = context.material.find_call_kind(context.state)
        if context.material.blueprint.calls[kind].fallback:
            active.progress.fallback = await resolving.fetch_answer(context.tenant, resolved)
        return resolved.entity is None

    async def _prepare_state(
        self, active: ActiveAttempt
    ) -> tuple[TurnContext, PlannedPrompt | None]:
        """Run the steps before the call, and set its stage.

        Returns the turn after that, and the prompt of the call if it was planned already.
        """
        guard = await load_guard(active.material)
        context, planned = await self._run_steps(active, guard)
        setup = self._build_setup(context)
        await active.begin_stage(setup)
        active.progress.guard = guard
        active.progress.setup = await self._complete_setup(setup, context)
        return context, planned

    async def _run_steps(
        self, active: ActiveAttempt, guard: OutputGuard
    ) -> tuple[TurnContext, PlannedPrompt | None]:
        """Run the requested tools and the retrievals, and begin a summary that is due."""
        tooling = ToolRunner(
            sessions=self.sessions,
            blobs=self.contexts.blobs,
            servers=self.servers,
            tool_snapshots=self.tool_snapshots,
            report_run=active.publish_tool_run,
            find_violation=guard.describe_violation,
            find_context_tokens=self.contexts.find_context_tokens,
            result_room=self.contexts.result_room,
            tracing=self.tracing,
        )
        retrieving = RetrievalStep(
            sessions=self.sessions,
            blobs=self.contexts.blobs,
            knowledge=self.knowledge,
            default_model=self.contexts.default_model,
            tracing=self.tracing,
        )
        context = await tooling.run_pending_tools(active.context)
        context = await retrieving.run_due_retrievals(context)
        context = await self.contexts.check_room(context)
        return await SummaryStep(self.sessions, self.contexts).begin_due_summary(context)

    def _build_setup(self, context: TurnContext) -> CallSetup:
        """Return what the call is for; this depends on the results of the tools."""
        material, state = context.material, context.state
        pinned = state.tools.get(state.profile)
        return CallSetup(
            stage=material.find_stage(state),
            tools=list_model_names(pinned),
            children=frozenset(material.blueprint.profiles[state.profile].children),
        )

    async def _complete_setup(self, setup: CallSetup, context: TurnContext) -> CallSetup:
        """Return the setup with what only a plan or only a reply needs."""
        material, state = context.material, context.state
        match setup.stage:
            case "plan":
                return replace(
                    setup,
                    prior_results=list_prior_results(material, state),
                    tool_room=await self.contexts.measure_tool_room(context),
                )
            case "loop" | "reply":
                profile = material.blueprint.profiles[state.profile]
                return replace(
                    setup,
                    work=await self._load_work(context),
                    has_used_rounds=has_used_rounds(profile, state.open),
                )
            case "act" | "summarise" | "query":
                return setup
            case _ as never:
                assert_never(never)

    async def _load_work(self, context: TurnContext) -> str | None:
        if context.state.open is None:
            return None
        texts, blueprint = self.sessions.texts, context.material.blueprint
        return await describe_turn_work(texts, context.tenant, context.state.open, blueprint)

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
        timeouts = active.context.policies.timeouts
        request = await run_text_work(
            partial(build_model_request, prepared, timeouts), prepared.media_size
        )
        if self.provider_keys is not None:
            key = await self.provider_keys.find_key(active.context.tenant, request.model)
            request = replace(request, key=key)
        sent = SentCall(prepared.attempt, request, prepared.manifest)
        _log_exclusions(active, prepared.manifest)
        session = active.context.session
        with self.tracing.start_chat_span(session, sent.attempt.call, request.model) as span:
            record_prompt(span, sent.manifest)
            try:
                leaves = list_work_leaves(active.context.state, active.attempt.turn)
                store = self.sessions.texts.media.store
                media = AnswerMediaIntake(store, self.contexts.answer_room, leaves)
                finished = await active.stream_answer(sent, self.model, media)
            except (ModelFailure, SafetyCheckFailure) as failure:
                record_failure(span, failure.code)
                raise
            if isinstance(finished, GuardViolation):
                record_withheld_answer(span)
            else:
                record_answer(span, finished, active.progress.first_token)
            return finished


def _log_exclusions(active: ActiveAttempt, manifest: Manifest) -> None:
    rules = Counter(part.rule for part in manifest.parts if not part.is_included)
    if rules:
        _log.debug("prompt-parts-excluded", rules=dict(rules), **describe_attempt(active))


def _check_quota(context: TurnContext) -> None:
    """Raise `Refused` for a turn whose user had no tokens left for a model."""
    reservation = context.require_turn().submission.reservation
    if reservation is not None and reservation.used_up is not None:
        raise Refused("quota-exceeded", reservation.used_up)
