"""Where a call's prompt was fixed, as far as the read models have come.

A hint for whoever looks it up on the log: rows that lag, or are being built, know less.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select

from turnlog.events.errors import Unavailable
from turnlog.projections.store.engine import Store
from turnlog.projections.store.selecting import of_session
from turnlog.projections.store.tables import CALLS
from turnlog.projections.store.texts import storable


@dataclass(frozen=True, slots=True)
class FoldedCalls:
    """Finds calls in the read models."""

    store: Store

    async def sequence_of(self, tenant: str, session: str, call: str) -> int | None:
        """Give the sequence of the event that fixed a call's prompt; none where no row says."""
        found = select(CALLS.c.sequence).where(
            of_session(CALLS, tenant, session), CALLS.c.call == storable(call)
        )
        try:
            async with self.store.reading() as connection:
                return await connection.scalar(found)
        except Unavailable:
            return None
