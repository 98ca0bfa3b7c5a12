"""The route for consumption: what turns used, in all and by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from turnlog.events.ids import USER_NAME_PATTERN
from turnlog.projections.read_models.call_costs import NO_COST
from turnlog.projections.store.read.row_types import UsageRow
from turnlog.projections.store.read.usage_queries import UsageFilter, UsageGrouping, list_usage
from turnlog.services.api.tenant.usage_payloads import UsageReport, create_usage
from turnlog.services.gateway.dependencies import Dependencies, RequestTenant
from turnlog.services.gateway.http.request_checks import QueryTime, convert_to_utc

router = APIRouter()

_NO_USAGE = UsageRow(None, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NO_COST)


@router.get("/v1/usage", summary="Show what turns used")
async def show_usage(
    tenant: RequestTenant,
    deps: Dependencies,
    group_by: Annotated[
        UsageGrouping, Query(description="What the turns of a group have in common")
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
    async with deps.store.open_reader() as connection:
        total = await list_usage(connection, tenant, "all", sought)
        models = await list_usage(connection, tenant, "model", sought)
        profiles = await list_usage(connection, tenant, "profile", sought)
        groups = () if group_by == "all" else await list_usage(connection, tenant, group_by, sought)
    return UsageReport(
        total=create_usage(total[0] if total else _NO_USAGE),
        groups=tuple(map(create_usage, groups)),
        models=_count_turns(models),
        profiles=_count_turns(profiles),
    )


def _count_turns(rows: Sequence[UsageRow]) -> dict[str, int]:
    return {row.group: row.turns for row in rows if row.group is not None}
