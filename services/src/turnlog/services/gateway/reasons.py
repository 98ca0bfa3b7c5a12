from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Response

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import RecordedEvent
from turnlog.events.library import SEGMENT_FAMILY
from turnlog.projections.audit.why import TurnExplanation, explain_turn, explain_call
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.window.segments import list_segments
from turnlog.services.gateway.desk import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.headers import set_etag

why_router = APIRouter()

WhyTurnPath = Annotated[int, Path(ge=1, le=MAX_INT, description="The turn")]


@why_router.get("/v1/sessions/{session}/calls/{call}/why", summary="Why a call was answered so")
async def show_why(
    session: str, call: str, tenant: RequestTenant, deps: Dependencies, response: Response
) -> TurnExplanation:
    """Return each part of a call's prompt with the events that caused it, and the call's effects.
    """
    explaining = deps.create_explainer(tenant)
    known = await explaining.load_evidence(session, [call])
    set_etag(response, known.end)
    edits = await load_segment_events(deps, tenant, known.events)
    return await explaining.compute_answer(
        {session: known}, lambda knowing: explain_call(knowing[session], call, edits)
    )


@why_router.get("/v1/sessions/{session}/turns/{turn}/why", summary="Why a turn was answered so")
async def show_why_of_turn(
    session: str, turn: WhyTurnPath, tenant: RequestTenant, deps: Dependencies, response: Response
) -> TurnExplanation:
    """Return the same for the call that answered a turn, or for its last call."""
    explaining = deps.create_explainer(tenant)
    known = await explaining.load_turn_evidence(session, turn)
    set_etag(response, known.end)
    edits = await load_segment_events(deps, tenant, known.events)
    return await explaining.compute_answer(
        {session: known}, lambda knowing: explain_turn(knowing[session], turn, edits)
    )


async def load_segment_events(deps: GatewayDependencies, tenant: str, events: Iterable[RecordedEvent]) -> Sequence[RecordedEvent]:
    """Return the events of the segment library, if any of these calls used segments."""
    calls = (each.event for each in events if isinstance(each.event, ContextAssembled))
    if not any(list_segments(call.manifest) for call in calls):
        return ()
    last = await deps.segment_service.log.read_last_event(tenant, SEGMENT_FAMILY)
    return await deps.segment_service.log.read_range(tenant, SEGMENT_FAMILY, None, last) if last else ()
