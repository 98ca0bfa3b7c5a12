"""Summing up older turns before a turn goes on, as far as a worker has to see to it.

Whether it is due is asked once, before the first call of a turn, and put on the log. What the model
makes of it is its own affair: a call that fails, or that takes too long, is noted and not repeated,
and the turn goes on with what its window holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnlog.events.call import Fault
from turnlog.events.codec import rfc3339
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.memory import SummaryBegun
from turnlog.projections.session.commands import Attempt, Spent
from turnlog.projections.session.memory_commands import BeginSummary, GiveUpSummary, RecordSummary
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.call import Needs
from turnlog.projections.window.material import Material
from turnlog.projections.window.summing import Candidate, candidates, due, sums_up
from turnlog.services.runtime.sessions import By, Sessions
from turnlog.services.worker.attempt import Speaking
from turnlog.services.worker.context import OFF, Contexts
from turnlog.services.worker.model.exchange import Finished
from turnlog.services.worker.model.failures import ModelFailure

SHARE: Final = 1 / 3
"""Of the time that a turn has, what a summary may take of it."""
Summed = Finished | ModelFailure | Refused | Corrupt
"""Ends of a call that sums up by which its turn goes on."""


@dataclass(frozen=True, slots=True)
class Summing:
    """Sees whether something is to be summed up."""

    sessions: Sessions
    contexts: Contexts

    async def begun(
        self, state: SessionState, attempt: Attempt, material: Material, by: By
    ) -> SessionState:
        """Have the first view that has become too long summed up; the others are seen to later."""
        model = material.model(state, self.contexts.default_model)
        if model == OFF or not sums_up(material):
            return state
        at, inputs = rfc3339(self.sessions.clock()), await self.contexts.gathering.inputs(state)
        for candidate in candidates(material, state, at, inputs):
            if found := await self._due(candidate, material, state, model):
                command = BeginSummary(attempt, found)
                return (await self.sessions.act(state.tenant, state.session, command, by)).state
        return state

    async def _due(
        self, candidate: Candidate, material: Material, state: SessionState, model: str
    ) -> SummaryBegun | None:
        if candidate.further(state):
            sequence = state.head.sequence
            state = await self.sessions.load_whole(state.tenant, state.session, sequence)
        said = candidate.said(state)
        if not said:
            return None
        texts = await self.sessions.texts.fetch(state.tenant, Needs((), said, older=False))
        return due(candidate, material, state, texts, model)


def patience(speaking: Speaking, profile: str) -> float | None:
    """Give how many seconds a call may take; none where the turn's own time is all that counts."""
    if speaking.stage != "summarise":
        return None
    return speaking.material.blueprint.conduct(profile).deadline_seconds * SHARE


def summed(speaking: Speaking, end: Summed, spent: Spent) -> RecordSummary | GiveUpSummary:
    """Say what came of a call that sums up."""
    match end:
        case Finished(finish_reason=finish):
            model = speaking.request.model
            return RecordSummary(speaking.attempt, speaking.text, finish, spent, model)
        case ModelFailure(code=code, detail=detail, retryable=retryable):
            fault = Fault(code=code, detail=detail, retryable=retryable)
        case Refused(code=code, detail=detail):
            fault = Fault(code=code, detail=detail, retryable=False)
        case Corrupt():
            fault = Fault(code="corrupt", detail=str(end), retryable=False)
    return GiveUpSummary(speaking.attempt, spent, fault)
