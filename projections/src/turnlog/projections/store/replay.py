from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.projections.store import checkpoints, quarantine
from turnlog.projections.store.advance import fold_into_build
from turnlog.projections.store.fold import PoisonEvent, decode_raw_event


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay."""

    events: int
    """How many events were folded again."""
    poison: PoisonEvent | None
    """The event that stopped the session again."""


async def replay_session(connection: AsyncConnection, tenant: str, session: str) -> ReplayResult:
    """Fold the quarantined events of a stopped session; does nothing if there are none."""
    live = await checkpoints.lock_active_position(connection)
    if live is None:
        return ReplayResult(0, None)
    raws = await quarantine.release_events(connection, live.build, (tenant, session))
    if not raws:
        return ReplayResult(0, None)
    poisons = await fold_into_build(connection, live.build, [decode_raw_event(raw) for raw in raws])
    return ReplayResult(len(raws), poisons[0] if poisons else None)
