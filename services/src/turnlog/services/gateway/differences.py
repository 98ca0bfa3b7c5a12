from __future__ import annotations

from itertools import chain
from typing import Annotated

from fastapi import APIRouter, Query, Response

from turnlog.events.ids import ID_PATTERN
from turnlog.projections.audit.diff import CallDiff, compare_calls
from turnlog.projections.audit.sides import build_call_snapshot
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.reasons import load_segment_events

diff_router = APIRouter()

OtherSessionQuery = Annotated[
    str | None,
    Query(pattern=f"^{ID_PATTERN}$", description="The session of the second call, where it is another"),
]


@diff_router.get(
    "/v1/sessions/{session}/calls/{call}/diff/{second}", summary="What differs between two calls"
)
async def show_diff(
    session: str,
    call: str,
    second: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    other: OtherSessionQuery = None,
) -> CallDiff:
    """Return what was added, removed, changed, cut or moved, with the rule and causes of each.

    The calls are of one session or of two sessions of the tenant.
    """
    explaining, there = deps.create_explainer(tenant), other or session
    asked = {session: [call]}
    asked[there] = [*asked.get(there, ()), second]
    knowing = {name: await explaining.load_evidence(name, calls) for name, calls in asked.items()}
    set_etag(response, knowing[session].end)
    edits = await load_segment_events(deps, tenant, chain(*(known.events for known in knowing.values())))
    return await explaining.compute_answer(
        knowing,
        lambda known: compare_calls(
            build_call_snapshot(known[session], call, edits), build_call_snapshot(known[there], second, edits)
        ),
    )
