from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from turnlog.services.gateway.commands import TurnPath
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.headers import SSE_MEDIA_TYPE, choose_media_type, get_last_event_id
from turnlog.services.gateway.turn_stream import open_turn_stream

turn_stream_router = APIRouter()

AfterCursorQuery = Annotated[
    str | None,
    Query(description="The id of an event of this stream; Last-Event-ID goes before it"),
]


@turn_stream_router.get(
    "/v1/sessions/{session}/turns/{turn}/stream",
    response_class=Response,
    responses={
        200: {"content": {SSE_MEDIA_TYPE: {}}},
        204: {"description": "The end was sent already"},
    },
    summary="Watch a turn being answered",
)
async def stream_turn(
    session: str,
    turn: TurnPath,
    request: Request,
    deps: Dependencies,
    tenant: RequestTenant,
    after: AfterCursorQuery = None,
) -> Response:
    """Stream `token` events, then one of `done`, `redact`, `failed` and `cancelled`.

    After `attempt-reset`, the texts of all earlier tokens are void. A client that reconnects with
    the id of its last event misses no text and gets none twice. Turns with several calls send
    `progress` events until their reply begins.
    """
    choose_media_type(request, SSE_MEDIA_TYPE)
    came_to = get_last_event_id(request)
    return await open_turn_stream(deps, tenant, session, turn, after if came_to is None else came_to)
