"""Health: whether the process runs, and whether it can do its work.

Ready means that the log's leader and the database both answer, and that the read models are those
of this log. The answer names the durability in force, because that is what every 2xx of this
gateway is worth, and how far the read models are behind.
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
    """Answer, which is all there is to say."""
    return Alive()


@router.get(
    "/readyz",
    responses={503: {"model": Readiness}},
    summary="Whether the gateway can do its work",
)
async def readyz(desk: AtDesk, response: Response) -> Readiness:
    """Ask every part, and name the durability in force."""
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
