from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from fastapi import APIRouter, Response

from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.turn import TurnCancelled, TurnCompleted, TurnFailed
from turnlog.projections.audit.tool_uses import ToolUsed, tool_used
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.tools import ToolResultView
from turnlog.services.gateway.payloads.turns import plain

router = APIRouter()

STRETCH: Final = 64
"""How many events of a turn are read at a time."""
_SETTLED: Final = (TurnCompleted, TurnFailed, TurnCancelled)


@router.get(
    "/v1/sessions/{session}/calls/{call}/tools/{id:path}", summary="What a tool gave, whole"
)
async def show_result(
    session: str,
    call: str,
    id: str,
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
) -> ToolResultView:
    """Return the arguments of a tool use, what prompts say of its result, and the whole result."""
    moment = await desk.past.call(tenant, session, call)
    used = tool_used([each async for each in _onward(desk, moment.recorded)], call, id)
    if used is None:
        detail = f"call {call} asked for no tool by that id"
        raise Refused("unknown-tool-use", detail, field="id")
    stamp(response, used.sequence)
    whole = await _whole(desk, tenant, used.returned.result if used.returned else None)
    return _view(session, used, whole)


async def _onward(desk: Desk, recorded: Recorded) -> AsyncGenerator[Recorded]:
    """Yield the events from a call to the end of its turn."""
    head, log = recorded.head, desk.sessions.log
    while events := await log.onward(recorded.tenant, recorded.session, head, STRETCH):
        for each in events:
            yield each
        head = events[-1].head
        if any(isinstance(each.event, _SETTLED) for each in events):
            return


async def _whole(desk: Desk, tenant: str, digest: Digest | None) -> str | None:
    if digest is None:
        return None
    try:
        return (await desk.blueprints.blobs.get(tenant, digest)).decode()
    except Corrupt:
        detail = f"blob {digest} was erased, or is damaged"
        raise Refused("result-gone", detail, fix="prompts show what was told of it") from None


def _view(session: str, used: ToolUsed, whole: str | None) -> ToolResultView:
    called, returned = used.called, used.returned
    return ToolResultView(
        session=session,
        sequence=used.sequence,
        call=called.call,
        id=called.id,
        tool=called.tool,
        arguments=called.arguments,
        outcome=returned.outcome if returned else None,
        detail=returned.detail if returned else "",
        text=plain(returned.text) if returned else None,
        treatment=returned.treatment if returned else "kept",
        digest=returned.result if returned else None,
        characters=returned.characters if returned else 0,
        result=whole,
    )
