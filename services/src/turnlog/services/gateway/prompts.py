from __future__ import annotations

from fastapi import APIRouter, Response

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.projections.audit.reproduction import Way
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.prompts import (
    MessageView,
    PromptView,
    Unproven,
    WayView,
)
from turnlog.services.runtime.reproducing import Ways, reproduced

router = APIRouter()


@router.get("/v1/sessions/{session}/calls/{call}/prompt", summary="The prompt of a call")
async def show_prompt(
    session: str, call: str, tenant: Tenant, desk: AtDesk, response: Response
) -> PromptView:
    """Reproduce the exact prompt of a call in both ways, and compare them with the record."""
    moment = await desk.past.call(tenant, session, call)
    recorded = moment.recorded
    if not isinstance(recorded.event, ContextAssembled):
        raise Corrupt(f"event {recorded.sequence}", "it is not the context of a call")
    ways = await reproduced(desk.past, moment, recorded.event)
    stamp(response, recorded.sequence)
    return _view(recorded, recorded.event, ways)


def _view(recorded: Recorded, call: ContextAssembled, ways: Ways) -> PromptView:
    request = ways.reference.request if ways.reference.outcome == "reproduced" else None
    said = request.messages if request else ()
    wrong = [way for way in (ways.reference, ways.assembly) if way.outcome == "failed"]
    return PromptView(
        session=recorded.session,
        sequence=recorded.sequence,
        call=call.call,
        turn=call.turn,
        model=call.model,
        parameters=call.parameters,
        messages=tuple(MessageView.model_validate(message) for message in said),
        tools=request.tools if request else (),
        manifest=call.manifest,
        digest=call.manifest.digest,
        reference=_way(ways.reference),
        assembly=_way(ways.assembly),
        verified=not wrong,
        fault=_fault(wrong[0]) if wrong else None,
    )


def _way(way: Way) -> WayView:
    return WayView(
        outcome=way.outcome,
        digest=way.request.digest if way.request else None,
        fault=None if way.outcome == "reproduced" else _fault(way),
    )


def _fault(way: Way) -> Unproven:
    return Unproven(where=way.where, detail=way.detail)
