"""Explanations: why a call's prompt is as it is, and how two calls differ.

They are computed from the events of the sessions and of the segment library, and contain no text
but that of the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.store.ports import EventLog
from turnlog.projections.audit.diff.call_diff import CallDiff, compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.explain.turn_explanation import (
    TurnExplanation,
    explain_call,
    explain_turn,
)
from turnlog.projections.prompt.sources.segment_layers import list_segments
from turnlog.services.audit.explain_service import ExplainService
from turnlog.services.sessions.time_travel import TimeTravel
from turnlog.services.use_cases.sequenced_answer import SequencedAnswer


@dataclass(frozen=True, slots=True)
class CallExplanations:
    """Explains and compares recorded calls."""

    time_travel: TimeTravel
    library: EventLog
    """The log of the segment library."""
    large_load_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the caller that loads much of a session, to bound memory."""

    async def explain_call(
        self, tenant: str, session: str, call: str
    ) -> SequencedAnswer[TurnExplanation]:
        """Return each part of a call's prompt with its causing events, and the call's effects."""
        explaining = self._create_explainer(tenant)
        known = await explaining.load_evidence(session, [call])
        edits = await self._load_segment_events(tenant, known.events)
        explanation = await explaining.compute_answer(
            {session: known}, lambda evidence: explain_call(evidence[session], call, edits)
        )
        return SequencedAnswer(explanation, known.end)

    async def explain_turn(
        self, tenant: str, session: str, turn: int
    ) -> SequencedAnswer[TurnExplanation]:
        """Return the explanation of the call that answered a turn, or of its last call."""
        explaining = self._create_explainer(tenant)
        known = await explaining.load_turn_evidence(session, turn)
        edits = await self._load_segment_events(tenant, known.events)
        explanation = await explaining.compute_answer(
            {session: known}, lambda evidence: explain_turn(evidence[session], turn, edits)
        )
        return SequencedAnswer(explanation, known.end)

    async def compare_calls(
        self, tenant: str, first: tuple[str, str], second: tuple[str, str]
    ) -> SequencedAnswer[CallDiff]:
        """Return how the prompts of two calls differ, with the rule and causes of each change.

        Each call is named with its session: they may be of two sessions of the tenant.
        """
        explaining = self._create_explainer(tenant)
        (session, call), (other_session, other_call) = first, second
        calls_by_session = {session: [call]}
        calls_by_session[other_session] = [*calls_by_session.get(other_session, ()), other_call]
        evidence = {
            name: await explaining.load_evidence(name, calls)
            for name, calls in calls_by_session.items()
        }
        edits = await self._load_segment_events(
            tenant, chain(*(known.events for known in evidence.values()))
        )
        diff = await explaining.compute_answer(
            evidence,
            lambda known: compare_calls(
                build_call_snapshot(known[session], call, edits),
                build_call_snapshot(known[other_session], other_call, edits),
            ),
        )
        return SequencedAnswer(diff, evidence[session].end)

    def _create_explainer(self, tenant: str) -> ExplainService:
        return ExplainService(self.time_travel, tenant, self.large_load_lock)

    async def _load_segment_events(
        self, tenant: str, events: Iterable[RecordedEvent]
    ) -> Sequence[RecordedEvent]:
        """Return the events of the segment library, if any of these calls used segments."""
        calls = (each.event for each in events if isinstance(each.event, ContextAssembled))
        if not any(list_segments(call.manifest) for call in calls):
            return ()
        last = await self.library.read_last_event(tenant, SEGMENT_FAMILY)
        return await self.library.read_range(tenant, SEGMENT_FAMILY, None, last) if last else ()
