from __future__ import annotations

from fastapi import APIRouter, Response

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.projections.audit.reproduction import ReproductionResult
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.payloads.prompts import (
    MessageView,
    RecordedPromptView,
    ReproductionFault,
    ReproductionView,
)
from turnlog.services.runtime.reproducing import ReproducedPrompt, reproduce_call

prompt_router = APIRouter()


@prompt_router.get("/v1/sessions/{session}/calls/{call}/prompt", summary="The prompt of a call")
async def show_prompt(
    session: str, call: str, tenant: RequestTenant, deps: Dependencies, response: Response
) -> RecordedPromptView:
    """Reproduce the exact prompt of a call in both ways, and compare them with the record."""
    moment = await deps.time_travel.find_call(tenant, session, call)
    recorded = moment.recorded
    if not isinstance(recorded.event, ContextAssembled):
        raise Corrupt(f"event {recorded.sequence}", "it is not the context of a call")
    ways = await reproduce_call(deps.time_travel, moment, recorded.event)
    set_etag(response, recorded.sequence)
    return _create_recorded_prompt_view(recorded, recorded.event, ways)


def _create_recorded_prompt_view(recorded: RecordedEvent, call: ContextAssembled, reproductions: ReproducedPrompt) -> RecordedPromptView:
    request = reproductions.reference.request if reproductions.reference.outcome == "reproduced" else None
    said = request.messages if request else ()
    wrong = [way for way in (reproductions.reference, reproductions.assembly) if way.outcome == "failed"]
    return RecordedPromptView(
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
        reference=_create_reproduction_view(reproductions.reference),
        assembly=_create_reproduction_view(reproductions.assembly),
        verified=not wrong,
        fault=_create_fault(wrong[0]) if wrong else None,
    )


def _create_reproduction_view(reproduction: ReproductionResult) -> ReproductionView:
    return ReproductionView(
        outcome=reproduction.outcome,
        digest=reproduction.request.digest if reproduction.request else None,
        fault=None if reproduction.outcome == "reproduced" else _create_fault(reproduction),
    )


def _create_fault(reproduction: ReproductionResult) -> ReproductionFault:
    return ReproductionFault(where=reproduction.first_difference, detail=reproduction.detail)
