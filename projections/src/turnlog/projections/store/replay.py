"""Replaying a stopped session after a fix: its events leave quarantine in the order they came.

The checkpoint is held meanwhile, so that an event of that session which arrives now is folded
behind them and not among them. What is still poison goes back, with its new reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.projections.store import checkpoints, quarantine
from turnlog.projections.store.advance import keep
from turnlog.projections.store.fold import Poison, arrived


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of a replay."""

    events: int
    """How many were tried."""
    poison: Poison | None
    """What stopped the session again."""


async def replay(connection: AsyncConnection, tenant: str, session: str) -> Replayed:
    """Fold the events of a stopped session that wait; nothing waits, nothing happens."""
    live = await checkpoints.held(connection)
    if live is None:
        return Replayed(0, None)
    raws = await quarantine.released(connection, live.build, (tenant, session))
    if not raws:
        return Replayed(0, None)
    poisons = await keep(connection, live.build, [arrived(raw) for raw in raws])
    return Replayed(len(raws), poisons[0] if poisons else None)
