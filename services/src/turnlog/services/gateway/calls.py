"""Routes for calls: their attempts and costs, their tool results, and token growth.

Calls and growth come from the read models, and tool results from the log and the blob store. A
prompt may contain only a summary of a long tool result; the whole result is available as long as it
is stored, and is bounded by the byte limit of its blueprint.
"""

from __future__ import annotations

from fastapi import APIRouter, Response

from turnlog.projections.store.listing import session as row_of
from turnlog.projections.store.queries import calls
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.freshness import MinSequence, read_up_to
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.calls import CallList, CallView

router = APIRouter()


@router.get("/v1/sessions/{session}/calls", summary="Calls of a session")
async def list_calls(
    session: str,
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
    min_sequence: MinSequence = None,
) -> CallList:
    """List the calls of a session with all their attempts."""
    state = await desk.sessions.load_open(tenant, session)
    if min_sequence is not None:
        await read_up_to(desk, state, min_sequence)
    async with desk.store.reading() as connection:
        row = await row_of(connection, tenant, session)
        found = await calls(connection, tenant, session)
    sequence = row.last_sequence if row else 0
    stamp(response, sequence)
    listed = tuple(CallView.model_validate(call) for call in found)
    return CallList(
        session=session,
        sequence=sequence,
        models=tuple(dict.fromkeys(call.model for call in listed)),
        profiles=tuple(dict.fromkeys(call.profile for call in listed if call.profile)),
        calls=listed,
    )
