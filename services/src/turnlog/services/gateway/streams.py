from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from turnlog.services.gateway.commands import TurnInPath
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.headers import SSE, accepted, last_event_id
from turnlog.services.gateway.turn_stream import turn_stream

router = APIRouter()

After = Annotated[
    str | None,
    Query(description="The id of an event of this stream; Last-Event-ID goes before it"),
]


@router.get(
    "/v1/sessions/{session}/turns/{turn}/stream",
    response_class=Response,
    responses={
        200: {"content": {SSE: {}}},
        204: {"description": "The end was sent already"},
    },
    summary="Watch a turn being answered",
)
async def watch_turn(
    session: str,
    turn: TurnInPath,
    request: Request,
    desk: AtDesk,
    tenant: Tenant,
    after: After = None,
) -> Response:
    """Stream `token` events, then one of `done`, `redact`, `failed` and `cancelled`.

    After `attempt-reset`, the texts of all earlier tokens are void. A client that reconnects with
    the id of its last event misses no text and gets none twice. Turns with several calls send
    `progress` events until their reply begins.
    """
    accepted(request, SSE)
    came_to = last_event_id(request)
    return await turn_stream(desk, tenant, session, turn, after if came_to is None else came_to)
