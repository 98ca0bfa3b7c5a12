from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from fastapi import APIRouter, Response

from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.turn import TurnCancelled, TurnCompleted, TurnFailed
from turnlog.projections.audit.tool_uses import ToolUseOutcome, find_tool_use
from turnlog.services.gateway.desk import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.payloads.tools import ToolResultView
from turnlog.services.gateway.payloads.turns import get_plain_text

tool_result_router = APIRouter()

EVENT_BATCH_SIZE: Final = 64
"""How many events of a turn are read at a time."""
_SETTLING_EVENTS: Final = (TurnCompleted, TurnFailed, TurnCancelled)


@tool_result_router.get(
    "/v1/sessions/{session}/calls/{call}/tools/{id:path}", summary="What a tool gave, whole"
)
async def show_tool_result(
    session: str,
    call: str,
    id: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
) -> ToolResultView:
    """Return the arguments of a tool use, what prompts say of its result, and the whole result."""
    moment = await deps.time_travel.find_call(tenant, session, call)
    used = find_tool_use([each async for each in _iterate_later_events(deps, moment.recorded)], call, id)
    if used is None:
        detail = f"call {call} asked for no tool by that id"
        raise Refused("unknown-tool-use", detail, field="id")
    set_etag(response, used.sequence)
    whole = await _load_result_text(deps, tenant, used.returned.result if used.returned else None)
    return _create_tool_result_view(session, used, whole)


async def _iterate_later_events(deps: GatewayDependencies, recorded: RecordedEvent) -> AsyncGenerator[RecordedEvent]:
    """Yield the events from a call to the end of its turn."""
    head, log = recorded.head, deps.sessions.log
    while events := await log.read_next_events(recorded.tenant, recorded.session, head, EVENT_BATCH_SIZE):
        for each in events:
            yield each
        head = events[-1].head
        if any(isinstance(each.event, _SETTLING_EVENTS) for each in events):
            return


async def _load_result_text(deps: GatewayDependencies, tenant: str, digest: Digest | None) -> str | None:
    if digest is None:
        return None
    try:
        return (await deps.blueprints.blobs.get_blob(tenant, digest)).decode()
    except Corrupt:
        detail = f"blob {digest} was erased, or is damaged"
        raise Refused("result-gone", detail, fix="prompts show what was told of it") from None


def _create_tool_result_view(session: str, tool_use: ToolUseOutcome, result_text: str | None) -> ToolResultView:
    called, returned = tool_use.called, tool_use.returned
    return ToolResultView(
        session=session,
        sequence=tool_use.sequence,
        call=called.call,
        id=called.id,
        tool=called.tool,
        arguments=called.arguments,
        outcome=returned.outcome if returned else None,
        detail=returned.detail if returned else "",
        text=get_plain_text(returned.text) if returned else None,
        treatment=returned.treatment if returned else "kept",
        digest=returned.result if returned else None,
        characters=returned.characters if returned else 0,
        result=result_text,
    )
