"""The route for consumption: what turns used, in all and by group."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field

from turnlog.contract import api_paths
from turnlog.contract.request_values import USER_NAME_PATTERN
from turnlog.contract.usage_payloads import UsageReport
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.store.read.usage_queries import (
    AttributeGrouping,
    UsageFilter,
    UsageGrouping,
)
from turnlog.services.http.request_checks import QueryTime, convert_to_utc
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.usage.usage_use_cases import UsageUseCases

router = APIRouter()

_ATTRIBUTE_PREFIX: Final = "attribute."

UsageGroupingWord = (
    Literal["all", "user", "profile", "blueprint", "model", "day", "hour", "failure"]
    | Annotated[str, Field(pattern=r"^attribute\..", max_length=200)]
)
"""A grouping as a query has it; `attribute.NAME` is by an attribute of the session."""


async def get_usage(request: Request) -> UsageUseCases:
    """Return the use cases of this application."""
    usage: UsageUseCases = request.app.state.use_cases.usage
    return usage


@router.get(api_paths.USAGE, summary="Show what turns used")
async def show_usage(
    tenant: RequestTenant,
    usage: Annotated[UsageUseCases, Depends(get_usage)],
    group_by: Annotated[
        UsageGroupingWord,
        Query(
            description="What the turns of a group have in common; `failure` is the code of those"
            " that failed, and `attribute.NAME` the value of an attribute of their session"
        ),
    ] = "all",
    user: Annotated[
        str | None, Query(pattern=USER_NAME_PATTERN, description="Only turns of this user")
    ] = None,
    since: Annotated[
        QueryTime | None, Query(description="Only turns submitted at or after this time")
    ] = None,
    until: Annotated[
        QueryTime | None, Query(description="Only turns submitted before this time")
    ] = None,
) -> UsageReport:
    """Return turns, tokens, cost, and what retrieval saved, in all and for each group."""
    sought = UsageFilter(
        user,
        convert_to_utc(since, "since") if since else None,
        convert_to_utc(until, "until") if until else None,
    )
    return await usage.report_usage(tenant, sought, _parse_grouping(group_by))


def _parse_grouping(word: UsageGroupingWord) -> UsageGrouping:
    match word:
        case "all" | "user" | "profile" | "blueprint" | "model" | "day" | "hour" | "failure":
            return word
        case _:
            return AttributeGrouping(check_text(word.removeprefix(_ATTRIBUTE_PREFIX), "group_by"))
