"""The route for the overview of all sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.call_payloads import OverviewView
from turnlog.services.http.component_schemas import refer_to_component
from turnlog.services.http.headers import JSON_MEDIA_TYPE, SSE_MEDIA_TYPE, choose_media_type
from turnlog.services.http.request_checks import QueryTime, convert_to_utc
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.http.sse import create_sse_response, encode_frame
from turnlog.services.use_cases.overview_feed import OverviewFeed

router = APIRouter()


async def get_feed(request: Request) -> OverviewFeed:
    """Return the overview of this application, for all who watch it."""
    feed: OverviewFeed = request.app.state.use_cases.overview
    return feed


@router.get(
    api_paths.OVERVIEW,
    response_model=OverviewView,
    responses={200: {"content": {SSE_MEDIA_TYPE: refer_to_component("OverviewView")}}},
    summary="Show all sessions at once",
)
async def show_overview(
    tenant: RequestTenant,
    feed: Annotated[OverviewFeed, Depends(get_feed)],
    request: Request,
    since: Annotated[
        QueryTime | None,
        Query(description="The beginning of series and tables; a day ago by default"),
    ] = None,
) -> Response:
    """Return what happens now, the calls of each hour, and the sessions and causes to look at.

    As a stream it is sent again when it has changed, at most once a second.
    """
    begin = convert_to_utc(since, "since") if since else None
    if choose_media_type(request, JSON_MEDIA_TYPE, SSE_MEDIA_TYPE) == SSE_MEDIA_TYPE:
        return create_sse_response(request, _encode_frames(feed.watch_overview(tenant, begin)))
    overview = await feed.overview.load_overview(tenant, begin)
    return Response(overview.model_dump_json(), media_type=JSON_MEDIA_TYPE)


async def _encode_frames(overviews: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async for overview in overviews:
        yield encode_frame("overview", overview, "")
