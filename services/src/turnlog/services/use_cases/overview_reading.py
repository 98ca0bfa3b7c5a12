"""The overview: one answer about all sessions, from the token ledger and the other read models."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from turnlog.contract.call_payloads import (
    FailureCount,
    ModelLatency,
    NearSession,
    OverviewTiles,
    OverviewView,
)
from turnlog.contract.usage_payloads import CostSum
from turnlog.events.codec import format_rfc3339
from turnlog.projections.session_views.cost_totals import add_costs
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.growth.group_growth import list_group_growth
from turnlog.projections.store.growth.token_ledger import GrowthFilter
from turnlog.projections.store.read import overview_queries as queries
from turnlog.projections.store.read.row_types import GroupGrowth
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.projections.store.write.stopped_sessions import list_stopped_sessions
from turnlog.services.alerts.alert_use_cases import AlertUseCases
from turnlog.services.integrity.projection_lag import measure_projection_lag
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.use_cases.prompts.call_reading import create_group_metrics

SHOWN_TIME: Final = timedelta(hours=24)
"""How far an overview goes back if nobody says."""

_LAST_HOUR: Final = timedelta(hours=1)

_RATE_MINUTES: Final = 5
"""Minutes over which turns a minute are counted."""


@dataclass(frozen=True, slots=True)
class OverviewReading:
    """Reads the overview of a tenant."""

    command_handler: CommandHandler
    store: ReadModelStore
    alerts: AlertUseCases

    async def load_overview(self, tenant: str, since: datetime | None = None) -> OverviewView:
        """Return what happens now, the hours since a time (by default a day), and where to look."""
        now = self.command_handler.clock()
        begin = since or _begin_of_hour(now - SHOWN_TIME)
        lag = await measure_projection_lag(self.command_handler.log, self.store, tenant)
        hour_ago = format_rfc3339(now - _LAST_HOUR)
        async with self.store.open_reader() as connection:
            sought = GrowthFilter(since=begin)
            series = await list_group_growth(
                connection=connection,
                tenant=tenant,
                by=(),
                sought=sought,
                bucket="hour",
                has_sizes=False,
            )
            versions = await list_group_growth(connection, tenant, ("version",), sought)
            near = await queries.list_near_sessions(connection, tenant)
            failures = await queries.list_failure_counts(connection, tenant, format_rfc3339(begin))
            latencies = await queries.read_latencies(connection, tenant, hour_ago)
            tiles = await _read_tiles(
                connection=connection,
                tenant=tenant,
                now=now,
                series=series,
                p95_ms=latencies.p95_ms,
                lag=lag,
            )
        return OverviewView(
            at=format_rfc3339(now),
            since=format_rfc3339(begin),
            tiles=tiles,
            alerts=await self.alerts.list_raised(tenant),
            series=tuple(map(create_group_metrics, series)),
            versions=tuple(map(create_group_metrics, versions)),
            near=tuple(map(NearSession.model_validate, near)),
            failures=tuple(map(FailureCount.model_validate, failures)),
            slow=tuple(map(ModelLatency.model_validate, latencies.models)),
        )


async def _read_tiles(
    connection: AsyncConnection,
    tenant: str,
    now: datetime,
    series: tuple[GroupGrowth, ...],
    p95_ms: int | None,
    lag: int,
) -> OverviewTiles:
    hour_ago = format_rfc3339(now - _LAST_HOUR)
    recent = format_rfc3339(now - timedelta(minutes=_RATE_MINUTES))
    failed = await queries.list_failure_counts(connection, tenant, hour_ago)
    submitted = await queries.count_turns_since(connection, tenant, recent)
    active = await read_active_position(connection)
    stopped = await list_stopped_sessions(connection, active.build, tenant) if active else ()
    today = format_rfc3339(now.replace(hour=0, minute=0, second=0, microsecond=0))[:10]
    return OverviewTiles(
        turns_in_flight=await queries.count_turns_in_flight(connection, tenant),
        turns_per_minute=submitted / _RATE_MINUTES,
        failed_last_hour=sum(each.turns for each in failed),
        p95_ms=p95_ms,
        cost_today=CostSum.model_validate(
            add_costs(each.cost for each in series if each.at and each.at.startswith(today))
        ),
        input_tokens=sum(each.input_tokens for each in series),
        cached_tokens=sum(each.cached_tokens for each in series),
        near_sessions=await queries.count_near_sessions(connection, tenant),
        stopped_sessions=len(stopped),
        lag=lag,
    )


def _begin_of_hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)
