"""Reading the turns of a session: their texts, replies and outcomes, and where their time went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

from turnlog.contract.session_payloads import UnreadableMessage
from turnlog.contract.turn_payloads import (
    DisplayView,
    HistoryView,
    PhaseVisit,
    TurnPlanStep,
    TurnSpan,
    TurnTimelineView,
    TurnToolUse,
    TurnView,
)
from turnlog.events.content import (
    RECORDED_TEXTS,
    Content,
    get_plain_text,
    parse_structured_text,
)
from turnlog.events.model.redaction_events import REDACTION_LEAF
from turnlog.events.recorded_reasoning import parse_reasoning, read_reasoning_text
from turnlog.projections.session.fold.settled_turns import build_unknown_turn
from turnlog.projections.session_views.phase_visits import filter_visits, list_phase_visits
from turnlog.projections.session_views.session_history import (
    CUT_STATUSES,
    HistoryTurn,
    apply_redactions,
    build_history,
)
from turnlog.projections.session_views.turn_activity import (
    NO_ACTIVITY,
    TurnActivity,
    collect_activity,
    withhold_texts,
)
from turnlog.projections.session_views.turn_timeline import collect_turn_spans, count_elapsed
from turnlog.services.sessions.time_travel import TimeTravel


@dataclass(frozen=True, slots=True)
class TurnHistory:
    """Reads the turns of sessions."""

    time_travel: TimeTravel

    async def load_history(
        self,
        tenant: str,
        session: str,
        *,
        at: int | None = None,
        phase: str | None = None,
        has_reasoning: bool = False,
    ) -> HistoryView:
        """Return all turns, now or at a sequence, or those of a phase, and the phase visits.

        What was withheld since is not in the history of an earlier sequence either. What
        the model reasoned is part of it where `has_reasoning` asks for it.
        """
        handler = self.time_travel.command_handler
        events = await self.time_travel.load_events(tenant, session, at)
        history, visits = build_history(events), list_phase_visits(events)
        if at is not None:
            last = await handler.load_last_event(tenant, session, at)
            redactions = await handler.log.read_events_by_leaf(
                tenant, session, REDACTION_LEAF, last.head
            )
            history = apply_redactions(history, redactions)
        if phase is not None:
            visits = filter_visits(visits, phase)
            history = tuple(
                turn for turn in history if any(turn.turn in visit.turns for visit in visits)
            )
        phases = {turn: visit.phase for visit in visits for turn in visit.turns}
        activity = collect_activity(events)
        unreadable = await handler.log.find_unreadable_end(tenant, session)
        return HistoryView(
            session=session,
            sequence=events[-1].sequence,
            turns=tuple(
                _create_turn_view(turn, activity.get(turn.turn, NO_ACTIVITY), phases.get(turn.turn))
                for turn in (history if has_reasoning else _drop_reasoning(history))
            ),
            stays=tuple(map(PhaseVisit.model_validate, visits)),
            unreadable=unreadable and UnreadableMessage.model_validate(unreadable),
        )

    async def load_timeline(self, tenant: str, session: str, turn: int) -> TurnTimelineView:
        """Return the calls, attempts, tools and waits of a turn as spans on one scale."""
        handler = self.time_travel.command_handler
        state = await handler.require_state(tenant, session)
        events = await handler.load_turn_events(state, turn)
        found = collect_turn_spans(events, turn)
        if found is None:
            raise build_unknown_turn(turn)
        return TurnTimelineView(
            session=session,
            sequence=events[-1].sequence,
            turn=turn,
            begun_at=found.begun_at,
            length_ms=found.length_ms,
            elapsed_ms=count_elapsed(found, handler.clock()),
            spans=tuple(map(TurnSpan.model_validate, found.spans)),
        )


def _create_turn_view(turn: HistoryTurn, activity: TurnActivity, phase: str | None) -> TurnView:
    """Return a turn as it is published: with each of its fields that has the name of one there."""
    activity = withhold_texts(activity, turn.kept) if turn.redacted else activity
    values = {name: _publish_value(getattr(turn, name)) for name in _SHARED_FIELDS}
    values |= {
        "partial": get_plain_text(turn.partial) if turn.status in CUT_STATUSES else None,
        "reasoning": _read_reasoning(turn.reasoning),
        "fallback": turn.fallback.code if turn.fallback else None,
        "output": parse_structured_text(turn.reply) if turn.structured else None,
        "phase": phase,
        "display": _create_display_view(turn),
        "steps": tuple(map(TurnPlanStep.model_validate, activity.steps)),
        "tools": tuple(map(TurnToolUse.model_validate, activity.uses)),
    }
    return TurnView.model_validate(values)


_SHARED_FIELDS: Final = TurnView.model_fields.keys() & {each.name for each in fields(HistoryTurn)}


def _drop_reasoning(history: Iterable[HistoryTurn]) -> Iterator[HistoryTurn]:
    for turn in history:
        yield turn if turn.reasoning is None else replace(turn, reasoning=None)


def _read_reasoning(recorded: Content | None) -> str | None:
    """Return what can be read of recorded reasoning."""
    text = get_plain_text(recorded)
    fields = parse_reasoning(text) if text else None
    return read_reasoning_text(fields) or None if fields else None


def _publish_value(value: object) -> object:
    return get_plain_text(value) if isinstance(value, RECORDED_TEXTS) else value


def _create_display_view(turn: HistoryTurn) -> DisplayView | None:
    display = turn.display
    return (
        DisplayView(text=get_plain_text(display.text), reply=get_plain_text(display.reply))
        if display
        else None
    )
