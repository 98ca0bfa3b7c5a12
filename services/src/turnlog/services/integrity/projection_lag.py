"""How far the read models are behind the log, for health and what-if requests."""

from __future__ import annotations

from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import EventLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.write import projection_positions


async def measure_projection_lag(log: EventLog, store: ReadModelStore, tenant: str) -> int:
    """Return the number of log events of all tenants that are not projected yet.

    Without a projection position the whole log counts. A log that ends before that position was
    rolled back, and `Corrupt` is raised.
    """
    # Read the position first: events appended meanwhile then count as lag, never as a negative one.
    async with store.open_reader() as connection:
        live = await projection_positions.read_active_position(connection)
    position = live.position if live else 0
    end = await log.get_last_stream_sequence(tenant)
    if end < position:
        detail = f"were built from a log that reached {position}; this one ends at {end}"
        raise Corrupt("read models", f"{detail}: restore that log, or run `turnlog rebuild`")
    return end - position
