"""Health routes: `/healthz` for liveness and `/readyz` for readiness.

The gateway is ready when the log's leader and the database answer and the read models belong to
this log. The response also has the durability level in force, which is what a 2xx of this gateway
guarantees, and the lag of the read models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from fastapi import APIRouter, Response

from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.services.api.service_payloads import ComponentHealth, LivenessView, ReadinessView
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies
from turnlog.services.platform.process_health import PROBE_SESSION, find_failure
from turnlog.services.platform.projection_lag import measure_projection_lag

router = APIRouter()


@router.get("/healthz", summary="Check liveness")
async def check_liveness() -> LivenessView:
    """Return that the process runs."""
    return LivenessView()


@router.get(
    "/readyz",
    responses={503: {"model": ReadinessView}},
    summary="Check readiness",
)
async def check_readiness(deps: Dependencies, response: Response) -> ReadinessView:
    """Check all components and return their health, the durability level and the lag."""
    tenant = deps.settings.tenant
    behind: list[int] = []

    async def measure() -> None:
        behind.append(await measure_projection_lag(deps.log, deps.store, tenant))

    checks = {
        "nats": deps.log.read_last_event(tenant, PROBE_SESSION, leader=True),
        "database": _check_database(deps),
        "read_models": measure(),
    }
    results = await asyncio.gather(*(_check_component(check) for check in checks.values()))
    ready = all(part.ready for part in results) and not deps.shutdown_event.is_set()
    response.status_code = 200 if ready else 503
    return ReadinessView(
        ready=ready,
        durability=deps.durability.level,
        checked=deps.durability.checked,
        lag=behind[0] if behind else None,
        parts=dict(zip(checks, results, strict=True)),
    )


async def _check_component(asking: Awaitable[object]) -> ComponentHealth:
    ill = await find_failure(asking)
    return ComponentHealth(ready=ill is None, detail=ill)


async def _check_database(deps: GatewayDependencies) -> None:
    async with deps.store.open_reader() as connection:
        await read_active_position(connection)
