from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Response

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.library import SEGMENTS
from turnlog.projections.audit.why import Why, why, why_call
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.window.segments import segments_in
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.headers import stamp

router = APIRouter()

Turn = Annotated[int, Path(ge=1, le=MAX_INT, description="The turn")]


@router.get("/v1/sessions/{session}/calls/{call}/why", summary="Why a call was answered so")
async def show_why(
    session: str, call: str, tenant: Tenant, desk: AtDesk, response: Response
) -> Why:
    """Return each part of a call's prompt with the events that caused it, and the call's effects.
    """
    explaining = desk.explaining(tenant)
    known = await explaining.known(session, [call])
    stamp(response, known.end)
    edits = await library(desk, tenant, known.events)
    return await explaining.explained(
        {session: known}, lambda knowing: why_call(knowing[session], call, edits)
    )


@router.get("/v1/sessions/{session}/turns/{turn}/why", summary="Why a turn was answered so")
async def show_why_of_turn(
    session: str, turn: Turn, tenant: Tenant, desk: AtDesk, response: Response
) -> Why:
    """Return the same for the call that answered a turn, or for its last call."""
    explaining = desk.explaining(tenant)
    known = await explaining.of_turn(session, turn)
    stamp(response, known.end)
    edits = await library(desk, tenant, known.events)
    return await explaining.explained(
        {session: known}, lambda knowing: why(knowing[session], turn, edits)
    )


async def library(desk: Desk, tenant: str, events: Iterable[Recorded]) -> Sequence[Recorded]:
    """Return the events of the segment library, if any of these calls used segments."""
    calls = (each.event for each in events if isinstance(each.event, ContextAssembled))
    if not any(segments_in(call.manifest) for call in calls):
        return ()
    last = await desk.shelves.log.last(tenant, SEGMENTS)
    return await desk.shelves.log.between(tenant, SEGMENTS, None, last) if last else ()
