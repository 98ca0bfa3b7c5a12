"""Routes for calls: their attempts and costs, their tool results, and token growth.

Calls and growth come from the read models, and tool results from the log and the blob store. A
prompt may contain only a summary of a long tool result; the whole result is available as long as it
is stored, and is bounded by the byte limit of its blueprint.
"""

from __future__ import annotations

from fastapi import APIRouter, Response

from turnlog.projections.store.listing import find_session as row_of
from turnlog.projections.store.queries import list_calls
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.freshness import MinSequenceQuery, wait_for_read_models
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.payloads.calls import CallList, CallView

call_router = APIRouter()


@call_router.get("/v1/sessions/{session}/calls", summary="Calls of a session")
async def list_calls(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    min_sequence: MinSequenceQuery = None,
) -> CallList:
    """List the calls of a session with all their attempts."""
    state = await deps.sessions.require_state(tenant, session)
    if min_sequence is not None:
        await wait_for_read_models(deps, state, min_sequence)
    async with deps.store.open_reader() as connection:
        row = await row_of(connection, tenant, session)
        found = await list_calls(connection, tenant, session)
    sequence = row.last_sequence if row else 0
    set_etag(response, sequence)
    listed = tuple(CallView.model_validate(call) for call in found)
    return CallList(
        session=session,
        sequence=sequence,
        models=tuple(dict.fromkeys(call.model for call in listed)),
        profiles=tuple(dict.fromkeys(call.profile for call in listed if call.profile)),
        calls=listed,
    )
