"""How far the rows are behind the log, for dashboards and for whoever asks whether all is well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from turnlog.projections.store import checkpoints
from turnlog.projections.store.engine import Store


class Ending(Protocol):
    """Knows where a log ends."""

    async def end(self, tenant: str) -> int:
        """Give the stream sequence of the last event in the tenant's stream."""
        ...


@dataclass(frozen=True, slots=True)
class Lag:
    """Where the log ends and where the rows are, by stream sequence."""

    end: int
    position: int

    @property
    def events(self) -> int:
        """How many events are not folded yet, those of all tenants."""
        return max(0, self.end - self.position)


async def lag(log: Ending, store: Store, tenant: str) -> Lag:
    """Measure it; a log without rows is behind by its whole length."""
    # The rows first: what is appended in between then counts as lag, and never the other way.
    async with store.reading() as connection:
        live = await checkpoints.active(connection)
    return Lag(await log.end(tenant), live.position if live else 0)
