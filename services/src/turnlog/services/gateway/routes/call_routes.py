"""Routes for calls: their attempts and costs, their tool results, and token growth."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from turnlog.contract import api_paths
from turnlog.contract.call_payloads import CacheBreakList, CallList, GrowthView, ToolResultView
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.projections.store.growth.group_growth import GrowthBucket
from turnlog.projections.store.growth.token_ledger import GrowthFilter
from turnlog.services.http.headers import set_etag, tag_body
from turnlog.services.http.request_checks import MinSequenceQuery, QueryTime, convert_to_utc
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.use_cases.prompts.call_reading import CallReading, parse_groupings

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


class CallQuery(BaseModel):
    """The query parameters that say which calls are meant."""

    model_config = ConfigDict(frozen=True)

    session: str | None = None
    """Only this session, and what growth has of each of its calls."""
    blueprint: str | None = None
    """Only calls of this blueprint."""
    profile: str | None = None
    """Only calls of this profile."""
    kind: str | None = None
    """Only calls of this kind."""
    model: str | None = None
    """Only calls to this model."""
    since: QueryTime | None = None
    """Only calls at or after this time."""
    until: QueryTime | None = None
    """Only calls before this time."""

    def create_filter(self) -> GrowthFilter:
        """Return which calls to count."""
        return GrowthFilter(
            session=self.session,
            blueprint=self.blueprint,
            profile=self.profile,
            kind=self.kind,
            model=self.model,
            since=convert_to_utc(self.since, "since") if self.since else None,
            until=convert_to_utc(self.until, "until") if self.until else None,
        )


class GrowthQuery(CallQuery):
    """The query parameters of growth: which calls it counts, and what those of a group share."""

    group_by: str | None = None
    """What the calls of a group have in common: one or two of `session`, `blueprint`, `version`,
    `profile`, `kind` and `model`, with a comma between them; all calls are one group by default.
    `version` is that of the blueprint at the call.
    """
    bucket: GrowthBucket | None = None
    """Group them by the day or the hour (UTC) as well."""
    min_sequence: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """Wait until the read models contain this sequence of the session."""


class CacheBreakQuery(CallQuery):
    """The query parameters of lost caches: of which calls, and how many causes are listed."""

    limit: Annotated[int, Field(ge=1, le=100)] = 10
    """Most causes that are listed."""


@router.get(api_paths.GROWTH, summary="Show the growth of context")
async def show_growth(
    tenant: RequestTenant,
    calls: Calls,
    response: Response,
    query: Annotated[GrowthQuery, Query()],
) -> GrowthView:
    """Return the tokens of each component, what was cut, and what was saved.

    The figures are per group, and per call where a session is named.
    """
    growth = await calls.compute_growth(
        tenant,
        query.create_filter(),
        group_by=parse_groupings(query.group_by),
        bucket=query.bucket,
        min_sequence=query.min_sequence,
    )
    if growth.sequence is not None:
        set_etag(response, growth.sequence)
    return growth


@router.get(api_paths.CACHE_BREAKS, summary="List what the caches of providers lost, by cause")
async def list_cache_breaks(
    tenant: RequestTenant, calls: Calls, query: Annotated[CacheBreakQuery, Query()]
) -> CacheBreakList:
    """Return why prompts were not read from a cache that had them, and what that cost."""
    return await calls.list_cache_breaks(tenant, query.create_filter(), query.limit)
