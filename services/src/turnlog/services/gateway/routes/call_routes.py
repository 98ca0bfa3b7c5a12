"""Routes for calls: their attempts and costs, their tool results, and token growth."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.call_payloads import CallList, GrowthView, ToolResultView
from turnlog.projections.store.read.token_ledger import GrowthGrouping
from turnlog.services.http.headers import set_etag, tag_body
from turnlog.services.http.request_checks import MinSequenceQuery, QueryTime, convert_to_utc
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.use_cases.prompts.call_reading import CallReading

router = APIRouter()


async def get_calls(request: Request) -> CallReading:
    """Return the use cases of reading calls."""
    calls: CallReading = request.app.state.use_cases.calls
    return calls


Calls = Annotated[CallReading, Depends(get_calls)]


@router.get(api_paths.CALLS, summary="List the calls of a session")
async def list_session_calls(
    session: str,
    tenant: RequestTenant,
    calls: Calls,
    response: Response,
    min_sequence: MinSequenceQuery = None,
) -> CallList:
    """List the calls of a session with all their attempts."""
    return tag_body(response, await calls.list_calls(tenant, session, min_sequence))


@router.get(
    api_paths.TOOL_RESULT,
    summary="Show the whole result of a tool use",
)
async def show_tool_result(
    session: str,
    call: str,
    id: str,
    tenant: RequestTenant,
    calls: Calls,
    response: Response,
) -> ToolResultView:
    """Return the arguments of a tool use, what prompts say of its result, and the whole result."""
    return tag_body(response, await calls.load_tool_result(tenant, session, call, id))


@router.get(api_paths.GROWTH, summary="Show the growth of context")
async def show_growth(
    tenant: RequestTenant,
    calls: Calls,
    response: Response,
    session: Annotated[
        str | None, Query(description="Only this session, with the figures of each call")
    ] = None,
    group_by: Annotated[
        GrowthGrouping, Query(description="What the calls of a group have in common")
    ] = "all",
    since: Annotated[
        QueryTime | None, Query(description="Only calls at or after this time")
    ] = None,
    min_sequence: MinSequenceQuery = None,
) -> GrowthView:
    """Return the tokens of each component, what was cut, and what was saved.

    The figures are per group, and per call where a session is named.
    """
    growth = await calls.compute_growth(
        tenant,
        session=session,
        group_by=group_by,
        since=convert_to_utc(since, "since") if since else None,
        min_sequence=min_sequence,
    )
    if growth.sequence is not None:
        set_etag(response, growth.sequence)
    return growth
