"""Health routes: `/healthz` for liveness and `/readyz` for readiness.

The gateway is ready when the log's leader and the database answer and the read models belong to
this log. The response also has the durability level in force, which is what a 2xx of this gateway
guarantees, and the lag of the read models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from fastapi import APIRouter, Response

from turnlog.projections.store.checkpoints import active
from turnlog.services.gateway.desk import AtDesk, Desk
from turnlog.services.gateway.payloads.service import Alive, PartHealth, Readiness
from turnlog.services.runtime.health import NOBODY, ailment
from turnlog.services.runtime.lag import lag

router = APIRouter()


@router.get("/healthz", summary="Whether the process runs")
async def healthz() -> Alive:
    """Return that the process runs."""
    return Alive()


@router.get(
    "/readyz",
    responses={503: {"model": Readiness}},
    summary="Whether the gateway can do its work",
)
async def readyz(desk: AtDesk, response: Response) -> Readiness:
    """Check all components and return their health, the durability level and the lag."""
    tenant = desk.settings.tenant
    behind: list[int] = []

    async def measure() -> None:
        behind.append(await lag(desk.log, desk.store, tenant))

    asked = {
        "nats": desk.log.last(tenant, NOBODY, leader=True),
        "database": _database(desk),
        "read_models": measure(),
    }
    told = await asyncio.gather(*(_health(asking) for asking in asked.values()))
    ready = all(part.ready for part in told) and not desk.stopping.is_set()
    response.status_code = 200 if ready else 503
    return Readiness(
        ready=ready,
        durability=desk.durability.level,
        checked=desk.durability.checked,
        lag=behind[0] if behind else None,
        parts=dict(zip(asked, told, strict=True)),
    )


async def _health(asking: Awaitable[object]) -> PartHealth:
    ill = await ailment(asking)
    return PartHealth(ready=ill is None, detail=ill)


async def _database(desk: Desk) -> None:
    async with desk.store.reading() as connection:
        await active(connection)
