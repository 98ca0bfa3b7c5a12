from __future__ import annotations

from itertools import chain
from typing import Annotated

from fastapi import APIRouter, Query, Response

from turnlog.events.ids import ID
from turnlog.projections.audit.diff import Diff, diff
from turnlog.projections.audit.sides import side_of
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.reasons import library

router = APIRouter()

Other = Annotated[
    str | None,
    Query(pattern=f"^{ID}$", description="The session of the second call, where it is another"),
]


@router.get(
    "/v1/sessions/{session}/calls/{call}/diff/{second}", summary="What differs between two calls"
)
async def show_diff(
    session: str,
    call: str,
    second: str,
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
    other: Other = None,
) -> Diff:
    """Return what was added, removed, changed, cut or moved, with the rule and causes of each.

    The calls are of one session or of two sessions of the tenant.
    """
    explaining, there = desk.explaining(tenant), other or session
    asked = {session: [call]}
    asked[there] = [*asked.get(there, ()), second]
    knowing = {name: await explaining.known(name, calls) for name, calls in asked.items()}
    stamp(response, knowing[session].end)
    edits = await library(desk, tenant, chain(*(known.events for known in knowing.values())))
    return await explaining.explained(
        knowing,
        lambda known: diff(
            side_of(known[session], call, edits), side_of(known[there], second, edits)
        ),
    )
