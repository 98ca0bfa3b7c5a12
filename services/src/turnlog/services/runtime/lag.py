"""How far the read models are behind the log, for whoever asks a gateway whether all is well."""

from __future__ import annotations

from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Log
from turnlog.projections.store import checkpoints
from turnlog.projections.store.engine import Store


async def lag(log: Log, store: Store, tenant: str) -> int:
    """Count the events that are not folded yet, those of all tenants.

    A log without rows is behind by its whole length; one that ends before its rows do was rolled
    back, and is `Corrupt`.
    """
    # The rows first: what is appended in between then counts as lag, and never the other way.
    async with store.reading() as connection:
        live = await checkpoints.active(connection)
    position = live.position if live else 0
    end = await log.end(tenant)
    if end < position:
        told = f"come from a log that went on to {position}, this one ends at {end}"
        raise Corrupt("read models", f"{told}: bring that log back, or run `turnlog rebuild`")
    return end - position
