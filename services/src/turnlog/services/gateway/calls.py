"""Calls over HTTP: what was asked of models and what it took, as far as the read models know.

The read models lag a little behind the log. Whoever has just been told a sequence asks for at
least that, and gets it, or 504 when it takes too long; never older rows as if they were fresh.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.store.listing import session as row_of
from turnlog.projections.store.queries import calls
from turnlog.projections.store.reach import reached
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.calls import CallList, CallView

router = APIRouter()

WAIT = 5.0
"""Seconds the read models are given to come to a sequence."""
MinSequence = Annotated[
    int | None,
    Query(ge=1, le=MAX_INT, description="Wait until the read models hold this sequence"),
]


@router.get("/v1/sessions/{session}/calls", summary="Calls of a session")
async def list_calls(
    session: str,
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
    min_sequence: MinSequence = None,
) -> CallList:
    """List the calls of a session with every attempt at them."""
    state = await desk.sessions.load_open(tenant, session)
    await read_up_to(desk, tenant, session, min_sequence, state.head.sequence)
    async with desk.store.reading() as connection:
        row = await row_of(connection, tenant, session)
        found = await calls(connection, tenant, session)
    sequence = row.last_sequence if row else 0
    stamp(response, sequence)
    listed = tuple(CallView.model_validate(call) for call in found)
    return CallList(session=session, sequence=sequence, calls=listed)


async def read_up_to(
    desk: Desk, tenant: str, session: str, sequence: int | None, head: int
) -> None:
    """Wait until the read models hold a sequence; refuses one the session has not come to."""
    if sequence is None:
        return
    if sequence > head:
        fix = f"ask for at most {head}"
        detail = f"the session has come to sequence {head}"
        raise Refused("not-there-yet", detail, field="min_sequence", fix=fix)
    if not await reached(desk.store, desk.bell, tenant, session, sequence, within=WAIT):
        detail = f"the read models have not come to sequence {sequence} yet"
        raise Refused("behind", detail, field="min_sequence", fix="ask again")
