"""The summary step: begin a due summary of older turns before a turn continues.

Whether one is due is decided before the first call of a turn, and before each call of a loop, and
recorded. A summary call that fails or takes too long is recorded and not repeated, and the turn
continues with what its prompt can hold.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from turnlog.projections.session.commands import BeginSummary
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.worker.attempts.active_attempt import ActiveAttempt
from turnlog.services.worker.attempts.call_context import CallContextBuilder
from turnlog.services.worker.model.model_types import MODEL_OFF
from turnlog.services.worker.turn_context import TurnContext, append_command

SUMMARY_TIME_SHARE: Final = 1 / 3
"""Share of the turn's time that a summary may take."""


@dataclass(frozen=True, slots=True)
class SummaryStep:
    """Checks whether a summary is due."""

    sessions: CommandHandler
    contexts: CallContextBuilder

    async def begin_due_summary(self, context: TurnContext) -> TurnContext:
        """Begin a summary of the first view that is too long; later checks find the others."""
        material, state = context.material, context.state
        if self.contexts.resolve_model(context) == MODEL_OFF or not has_summaries(material):
            return context
        at = format_rfc3339(self.sessions.clock())
        inputs = await self.contexts.prompt_inputs.load_turn_inputs(state)
        for candidate in list_summary_candidates(material, state, at, inputs):
            if found := await self._find_due_summary(candidate, context):
                command = BeginSummary(context.attempt, found)
                return await append_command(self.sessions, context, command)
        return context

    async def _find_due_summary(
        self, candidate: SummaryCandidate, context: TurnContext
    ) -> SummaryBegun | None:
        state = context.state
        if candidate.has_reachable_runs(state):
            every_turn = candidate.history_window.needs_every_turn(state)
            state = await self.sessions.load_older_turns(state, every_turn=every_turn)
            candidate = candidate.select_turns(state)
        refs = candidate.list_refs()
        if not refs:
            return None
        texts = await self.sessions.texts.fetch_texts(context.tenant, PromptNeeds((), refs))
        by_ladder = candidate.view_limit is None and candidate.is_next
        prompt = await self.contexts.plan_next_call(context) if by_ladder else None
        model = self.contexts.resolve_model(context)
        return find_due_summary(candidate, context.material, state, texts, model, prompt)


def compute_time_limit(active: ActiveAttempt) -> float | None:
    """Return the seconds that a call may take; None if only the turn's deadline applies."""
    if active.stage != "summarise":
        return None
    return active.context.policies.deadline_seconds * SUMMARY_TIME_SHARE
