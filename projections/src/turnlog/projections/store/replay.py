from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.projections.store import checkpoints, quarantine
from turnlog.projections.store.advance import keep
from turnlog.projections.store.fold import Poison, arrived


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay."""

    events: int
    """How many events were folded again."""
    poison: Poison | None
    """The event that stopped the session again."""


async def replay(connection: AsyncConnection, tenant: str, session: str) -> Replayed:
    """Fold the quarantined events of a stopped session; does nothing if there are none."""
    live = await checkpoints.held(connection)
    if live is None:
        return Replayed(0, None)
    raws = await quarantine.released(connection, live.build, (tenant, session))
    if not raws:
        return Replayed(0, None)
    poisons = await keep(connection, live.build, [arrived(raw) for raw in raws])
    return Replayed(len(raws), poisons[0] if poisons else None)
