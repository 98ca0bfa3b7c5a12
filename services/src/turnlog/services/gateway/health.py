"""Health: whether the process runs, and whether it can do its work.

Ready means that the log's leader and the database both answer. The answer names the durability
in force, because that is what every 2xx of this gateway is worth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from fastapi import APIRouter, Response

from turnlog.projections.store.checkpoints import active
from turnlog.services.gateway.desk import AtDesk, Desk
from turnlog.services.gateway.payloads.service import Alive, PartHealth, Readiness
from turnlog.services.runtime.health import NOBODY, ailment

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
    nats, database = await asyncio.gather(
        _health(desk.log.last(tenant, NOBODY, leader=True)), _health(_database(desk))
    )
    ready = nats.ready and database.ready and not desk.stopping.is_set()
    response.status_code = 200 if ready else 503
    return Readiness(
        ready=ready,
        durability=desk.durability.level,
        checked=desk.durability.checked,
        parts={"nats": nats, "database": database},
    )


async def _health(asking: Awaitable[object]) -> PartHealth:
    ill = await ailment(asking)
    return PartHealth(ready=ill is None, detail=ill)


async def _database(desk: Desk) -> None:
    async with desk.store.reading() as connection:
        await active(connection)
