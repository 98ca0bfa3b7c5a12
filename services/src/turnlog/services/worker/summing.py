"""The summary step: begin a due summary of older turns before a turn continues.

Whether one is due is decided once, before the first call of a turn, and recorded. A summary call
that fails or takes too long is recorded and not repeated, and the turn continues with what its
prompt can hold.
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
"""Share of the turn's time that a summary may take."""
Summed = Finished | ModelFailure | Refused | Corrupt
"""Ends of a summary call after which its turn continues."""


@dataclass(frozen=True, slots=True)
class Summing:
    """Checks whether a summary is due."""

    sessions: Sessions
    contexts: Contexts

    async def begun(
        self, state: SessionState, attempt: Attempt, material: Material, by: By
    ) -> SessionState:
        """Begin a summary of the first view that is too long; later checks find the others."""
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
    """Return the seconds that a call may take; None if only the turn's deadline applies."""
    if speaking.stage != "summarise":
        return None
    return speaking.material.blueprint.conduct(profile).deadline_seconds * SHARE


def summed(speaking: Speaking, end: Summed, spent: Spent) -> RecordSummary | GiveUpSummary:
    """Build the command that records the outcome of a summary call."""
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
