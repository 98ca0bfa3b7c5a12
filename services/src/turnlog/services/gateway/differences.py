"""Differences over HTTP: two calls, of one session or of two of a tenant's.

It is computed from the events of both sessions and of the library, and holds no text; what either
call was sent stands behind its own route.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from turnlog.events.ids import ID
from turnlog.projections.audit.diff import Diff, diff
from turnlog.projections.audit.known import whole
from turnlog.projections.audit.sides import side_of
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.reasons import library
from turnlog.services.runtime.aside import aside

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
    """Give what was added, removed, changed, shrunk or moved, each with its rule and its causes."""
    async with desk.whole:
        events = await desk.sessions.events(tenant, session)
        others = await desk.sessions.events(tenant, other) if other else events
        stamp(response, events[-1].sequence)
        edits = await library(desk, tenant, (*events, *others))
        return await aside(
            # Two long sessions take a while, in which others are to be answered
            lambda: diff(side_of(whole(events), call, edits), side_of(whole(others), second, edits))
        )
