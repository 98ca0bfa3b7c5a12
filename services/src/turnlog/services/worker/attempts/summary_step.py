"""The summary step: begin a due summary of older turns before a turn continues.

Whether one is due is decided before the first call of a turn, and before each call of a loop, and
recorded. A summary call that fails or takes too long is recorded and not repeated, and the turn
continues with what its prompt can hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from turnlog.events.codec import format_rfc3339
from turnlog.events.model.memory_events import SummaryBegun
from turnlog.projections.prompt.assembly_inputs import PromptNeeds
from turnlog.projections.prompt.budget.due_summaries import (
    SummaryCandidate,
    find_due_summary,
    has_summaries,
    list_summary_candidates,
)
from turnlog.projections.prompt.budget.trim_ladder import UnfittedPrompt
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import AttemptRef, BeginSummary
from turnlog.projections.session.state import SessionState
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.idempotent_commands import CommandMetadata
from turnlog.services.worker.attempts.active_attempt import ActiveAttempt
from turnlog.services.worker.attempts.call_context import CallContextBuilder
from turnlog.services.worker.model.model_types import MODEL_OFF

SUMMARY_TIME_SHARE: Final = 1 / 3
"""Share of the turn's time that a summary may take."""


@dataclass(frozen=True, slots=True)
class SummaryStep:
    """Checks whether a summary is due."""

    sessions: CommandHandler
    contexts: CallContextBuilder

    async def begin_due_summary(
        self,
        state: SessionState,
        attempt: AttemptRef,
        material: SessionMaterial,
        by: CommandMetadata,
    ) -> SessionState:
        """Begin a summary of the first view that is too long; later checks find the others."""
        model = material.resolve_model(state, self.contexts.default_model)
        if model == MODEL_OFF or not has_summaries(material):
            return state
        at, inputs = (
            format_rfc3339(self.sessions.clock()),
            await self.contexts.prompt_inputs.load_turn_inputs(state),
        )
        for candidate in list_summary_candidates(material, state, at, inputs):
            plan_next = partial(self.contexts.plan_next_call, state, attempt, material, by)
            if found := await self._find_due_summary(candidate, material, state, model, plan_next):
                command = BeginSummary(attempt, found)
                return (await self.sessions.handle(state.tenant, state.session, command, by)).state
        return state

    async def _find_due_summary(
        self,
        candidate: SummaryCandidate,
        material: SessionMaterial,
        state: SessionState,
        model: str,
        plan_next_call: Callable[[], Awaitable[UnfittedPrompt | None]],
    ) -> SummaryBegun | None:
        if candidate.has_reachable_runs(state):
            every_turn = candidate.history_window.needs_every_turn(state)
            state = await self.sessions.load_older_turns(state, every_turn=every_turn)
            candidate = candidate.select_turns(state)
        refs = candidate.list_refs()
        if not refs:
            return None
        texts = await self.sessions.texts.fetch_texts(state.tenant, PromptNeeds((), refs))
        by_ladder = candidate.view_limit is None and candidate.is_next
        prompt = await plan_next_call() if by_ladder else None
        return find_due_summary(candidate, material, state, texts, model, prompt)


def compute_time_limit(active: ActiveAttempt, profile: str) -> float | None:
    """Return the seconds that a call may take; None if only the turn's deadline applies."""
    if active.stage != "summarise":
        return None
    return active.material.blueprint.resolve_policies(profile).deadline_seconds * SUMMARY_TIME_SHARE
