"""The summary step: begin a due summary of older turns before a turn continues.

Whether one is due is decided before the first call of a turn, and before each call of a loop, and
recorded. A summary call that fails or takes too long is recorded and not repeated, and the turn
continues with what its prompt can hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnlog.events.codec import format_rfc3339
from turnlog.projections.prompt.assemble import PlannedPrompt
from turnlog.projections.prompt.assembly_inputs import PromptNeeds, PromptTexts
from turnlog.projections.prompt.budget.due_summaries import (
    SummaryCandidate,
    find_due_summary,
    has_summaries,
    list_summary_candidates,
)
from turnlog.projections.session.commands import BeginSummary
from turnlog.projections.session.next_call import SIDE_STAGES
from turnlog.projections.session.state import SessionState
from turnlog.services.platform.process_settings import MODEL_OFF
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import load_turn_inputs
from turnlog.services.worker.attempts.active_attempt import ActiveAttempt
from turnlog.services.worker.attempts.call_context import CallContextBuilder
from turnlog.services.worker.turn_context import TurnContext, append_command

SIDE_CALL_TIME_SHARE: Final = 1 / 3
"""Share of the turn's time that a call may take which the turn can do without."""


@dataclass(frozen=True, slots=True)
class SummaryStep:
    """Checks whether a summary is due."""

    sessions: CommandHandler
    contexts: CallContextBuilder

    async def begin_due_summary(
        self, context: TurnContext
    ) -> tuple[TurnContext, PlannedPrompt | None]:
        """Begin a summary of the first view that is too long; later checks find the others.

        Returns the turn after that. If none is begun, and a ladder had to be asked, also returns
        the next call as it was planned for that.
        """
        material, state = context.material, context.state
        model, planned = self.contexts.resolve_model(context), None
        if model == MODEL_OFF or not has_summaries(material):
            return context, None
        at = format_rfc3339(self.sessions.clock())
        inputs = await load_turn_inputs(self.sessions, state)
        context_tokens = await self.contexts.prompt_inputs.find_context_tokens(model)
        for candidate in list_summary_candidates(
            material=material,
            state=state,
            at=at,
            inputs=inputs,
            model=model,
            context_tokens=context_tokens,
        ):
            loaded = await self._load_turns(candidate, context.state)
            texts = await self._fetch_texts(loaded, context)
            if texts is None:
                continue
            prompt = None
            if candidate.is_limited_by_next_call:
                if planned is None:
                    context, planned = await self.contexts.plan_next_call(context)
                prompt = planned.unfitted_prompt
            if found := find_due_summary(
                candidate=loaded,
                material=material,
                state=context.state,
                texts=texts,
                model=model,
                context_tokens=context_tokens,
                prompt=prompt,
            ):
                command = BeginSummary(context.attempt, found)
                context = await append_command(self.sessions, context, command)
                if context.require_turn().summing:
                    return context, None
                return await self.begin_due_summary(context)  # A turn was excluded meanwhile.
        return context, planned

    async def _load_turns(
        self, candidate: SummaryCandidate, state: SessionState
    ) -> SummaryCandidate:
        """Return the candidate with the turns that the state keeps only as runs."""
        if not candidate.has_reachable_runs(state):
            return candidate
        every_turn = candidate.history_window.needs_every_turn(state)
        farther = await self.sessions.load_older_turns(state, every_turn=every_turn)
        return candidate.select_turns(farther)

    async def _fetch_texts(
        self, candidate: SummaryCandidate, context: TurnContext
    ) -> PromptTexts | None:
        """Return the texts of a view; None if it is short or has no older turns."""
        refs = candidate.list_refs()
        if not refs:
            return None
        return await self.sessions.texts.fetch_texts(context.tenant, PromptNeeds((), refs))


def compute_time_limit(active: ActiveAttempt) -> float | None:
    """Return the seconds that a call may take; None if only the turn's deadline applies."""
    if active.stage not in SIDE_STAGES:
        return None
    return active.context.policies.deadline_seconds * SIDE_CALL_TIME_SHARE
