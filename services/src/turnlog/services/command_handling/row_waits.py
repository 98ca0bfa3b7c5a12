"""Reading one's own writes: waits until the read models contain a sequence that a caller names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from turnlog.events.errors import Refused
from turnlog.events.store.ports import EventLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_for_sequence
from turnlog.services.integrity.projection_lag import measure_projection_lag

MIN_SEQUENCE_FIELD: Final = "min_sequence"


@dataclass(frozen=True, slots=True)
class RowWaits:
    """Waits for rows of one store; stale rows are never returned."""

    store: ReadModelStore
    projection_signal: ProjectionSignal
    """Signalled by a projector that runs in this process, after each batch."""
    timeout: float = 5.0
    """Seconds to wait for the read models to reach a sequence."""

    async def wait_for_rows(
        self, read_sequence: Callable[[], Awaitable[int]], sequence: int, head: int
    ) -> None:
        """Wait until the read models contain a sequence of what `read_sequence` reads.

        `head` is its last sequence on the log. Raises `Refused` for a later sequence, and `behind`
        after the timeout.
        """
        refuse_future(sequence, head, MIN_SEQUENCE_FIELD)
        if not await wait_for_sequence(
            self.projection_signal, read_sequence, sequence, within=self.timeout
        ):
            detail = f"the read models have not reached sequence {sequence} yet"
            fix = "send the request again"
            raise Refused("behind", detail, field=MIN_SEQUENCE_FIELD, fix=fix)

    async def measure_remaining_lag(self, log: EventLog, tenant: str) -> int:
        """Return by how many events the rows lag, after giving them time to catch up."""
        end = await log.get_last_stream_sequence(tenant)

        async def look() -> int:
            return end - await measure_projection_lag(log, self.store, tenant)

        level = await wait_for_sequence(self.projection_signal, look, end, within=self.timeout)
        return 0 if level else await measure_projection_lag(log, self.store, tenant)


def refuse_future(sequence: int, head: int, field: str) -> None:
    """Refuse a sequence after the last one."""
    if sequence > head:
        detail = f"the last sequence is {head}"
        raise Refused("not-there-yet", detail, field=field, fix=f"send at most {head}")
