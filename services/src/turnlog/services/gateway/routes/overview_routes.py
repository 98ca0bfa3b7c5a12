"""The route for the overview of all sessions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from turnlog.contract import api_paths
from turnlog.contract.call_payloads import OverviewView
from turnlog.services.http.request_checks import QueryTime, convert_to_utc
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.use_cases.overview_reading import OverviewReading

router = APIRouter()


async def get_overview(request: Request) -> OverviewReading:
    """Return the use cases of this application."""
    overview: OverviewReading = request.app.state.use_cases.overview
    return overview


@router.get(api_paths.OVERVIEW, summary="Show all sessions at once")
async def show_overview(
    tenant: RequestTenant,
    overview: Annotated[OverviewReading, Depends(get_overview)],
    since: Annotated[
        QueryTime | None,
        Query(description="The beginning of series and tables; a day ago by default"),
    ] = None,
) -> OverviewView:
    """Return what happens now, the calls of each hour, and the sessions and causes to look at."""
    begin = convert_to_utc(since, "since") if since else None
    return await overview.load_overview(tenant, begin)
