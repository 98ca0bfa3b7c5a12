from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from turnlog.events.plan import StepPlanned
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.history import Turn, history
from turnlog.projections.stays import Stay, in_phase, stays
from turnlog.projections.undertakings import NOTHING, Undertaking, Use, undertakings
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.turns import (
    DisplayView,
    HistoryView,
    StayView,
    StepView,
    ToolUseView,
    TurnView,
    plain,
)

router = APIRouter()

At = Annotated[
    int | None,
    Query(ge=1, le=MAX_INT, description="As it was at this sequence; without it as it is now"),
]


@router.get("/v1/sessions/{session}/history", summary="Turns of a session")
async def show_history(
    session: str,
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
    at: At = None,
    phase: Annotated[str | None, Query(description="Only what was said in this phase")] = None,
) -> HistoryView:
    """Return all turns with their texts, replies and outcomes, and the phases of the session."""
    events = await desk.past.events(tenant, session, at)
    stamp(response, events[-1].sequence)
    told, been = history(events), stays(events)
    if phase is not None:
        been = in_phase(been, phase)
        told = tuple(turn for turn in told if any(turn.turn in stay.turns for stay in been))
    phases = {turn: stay.phase for stay in been for turn in stay.turns}
    done = undertakings(events)
    return HistoryView(
        session=session,
        sequence=events[-1].sequence,
        turns=tuple(
            _view(turn, done.get(turn.turn, NOTHING), phases.get(turn.turn)) for turn in told
        ),
        stays=tuple(_stay(stay) for stay in been),
    )


def _stay(stay: Stay) -> StayView:
    return StayView(
        phase=stay.phase,
        before=stay.before,
        signal=stay.signal,
        at=stay.at,
        first=stay.first,
        last=stay.last,
        carried=plain(stay.carried),
        shared=stay.shared,
        hidden=stay.hidden,
        turns=stay.turns,
    )


def _view(turn: Turn, done: Undertaking, phase: str | None) -> TurnView:
    return TurnView(
        turn=turn.turn,
        status=turn.status,
        text=plain(turn.text),
        reply=plain(turn.reply),
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
        display=_display(turn),
        steps=tuple(_step(step) for step in done.steps),
        tools=tuple(_use(use) for use in done.uses),
    )


def _display(turn: Turn) -> DisplayView | None:
    shown = turn.display
    return DisplayView(text=plain(shown.text), reply=plain(shown.reply)) if shown else None


def _step(step: StepPlanned) -> StepView:
    return StepView(step=step.step, goal=plain(step.goal), given=step.given is not None)


def _use(use: Use) -> ToolUseView:
    called, back = use.called, use.back
    return ToolUseView(
        call=called.call,
        id=called.id,
        tool=called.tool,
        arguments=called.arguments,
        step=called.step,
        outcome=back.outcome if back else None,
        detail=back.detail if back else "",
        text=plain(back.text) if back else None,
        characters=back.characters if back else 0,
        condensed=back is not None and back.treatment == "condensed",
        milliseconds=back.milliseconds if back else None,
    )
