from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from turnlog.events.plan import StepPlanned
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.history import HistoryTurn, build_history
from turnlog.projections.stays import PhaseVisit, filter_visits, list_phase_visits
from turnlog.projections.undertakings import NO_ACTIVITY, TurnActivity, TurnToolUse, collect_activity
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.payloads.turns import (
    DisplayView,
    HistoryView,
    PhaseVisitView,
    PlanStepView,
    ToolUseView,
    TurnView,
    get_plain_text,
)

history_router = APIRouter()

AtSequence = Annotated[
    int | None,
    Query(ge=1, le=MAX_INT, description="As it was at this sequence; without it as it is now"),
]


@history_router.get("/v1/sessions/{session}/history", summary="Turns of a session")
async def show_history(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    at: AtSequence = None,
    phase: Annotated[str | None, Query(description="Only what was said in this phase")] = None,
) -> HistoryView:
    """Return all turns with their texts, replies and outcomes, and the phases of the session."""
    events = await deps.time_travel.load_events(tenant, session, at)
    set_etag(response, events[-1].sequence)
    told, been = build_history(events), list_phase_visits(events)
    if phase is not None:
        been = filter_visits(been, phase)
        told = tuple(turn for turn in told if any(turn.turn in stay.turns for stay in been))
    phases = {turn: stay.phase for stay in been for turn in stay.turns}
    done = collect_activity(events)
    return HistoryView(
        session=session,
        sequence=events[-1].sequence,
        turns=tuple(
            _create_turn_view(turn, done.get(turn.turn, NO_ACTIVITY), phases.get(turn.turn)) for turn in told
        ),
        stays=tuple(_create_phase_visit_view(stay) for stay in been),
    )


def _create_phase_visit_view(stay: PhaseVisit) -> PhaseVisitView:
    return PhaseVisitView(
        phase=stay.phase,
        before=stay.before,
        signal=stay.signal,
        at=stay.at,
        first=stay.first,
        last=stay.last,
        carried=get_plain_text(stay.carried),
        shared=stay.shared,
        hidden=stay.hidden,
        turns=stay.turns,
    )


def _create_turn_view(turn: HistoryTurn, done: TurnActivity, phase: str | None) -> TurnView:
    return TurnView(
        turn=turn.turn,
        status=turn.status,
        text=get_plain_text(turn.text),
        reply=get_plain_text(turn.reply),
        finish=turn.finish,
        call=turn.call,
        excluded=turn.excluded,
        redacted=turn.redacted,
        purged=turn.purged,
        reason=turn.reason,
        sequence=turn.sequence,
        submitted_at=turn.submitted_at,
        settled_at=turn.settled_at,
        remembered=turn.remembered,
        fallback=turn.fallback.code if turn.fallback else None,
        phase=phase,
        display=_create_display_view(turn),
        steps=tuple(_create_step_view(step) for step in done.steps),
        tools=tuple(_create_tool_use_view(use) for use in done.uses),
    )


def _create_display_view(turn: HistoryTurn) -> DisplayView | None:
    shown = turn.display
    return DisplayView(text=get_plain_text(shown.text), reply=get_plain_text(shown.reply)) if shown else None


def _create_step_view(step: StepPlanned) -> PlanStepView:
    return PlanStepView(step=step.step, goal=get_plain_text(step.goal), given=step.given is not None)


def _create_tool_use_view(use: TurnToolUse) -> ToolUseView:
    called, back = use.called, use.back
    return ToolUseView(
        call=called.call,
        id=called.id,
        tool=called.tool,
        arguments=called.arguments,
        step=called.step,
        outcome=back.outcome if back else None,
        detail=back.detail if back else "",
        text=get_plain_text(back.text) if back else None,
        characters=back.characters if back else 0,
        condensed=back is not None and back.treatment == "condensed",
        milliseconds=back.milliseconds if back else None,
    )
