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
    """Finds the event with a call's prompt; rows that lag or are being built may not have it."""

    store: Store

    async def sequence_of(self, tenant: str, session: str, call: str) -> int | None:
        """Return the sequence of the event that fixed a call's prompt; None if no row has it."""
        found = select(CALLS.c.sequence).where(
            of_session(CALLS, tenant, session), CALLS.c.call == storable(call)
        )
        try:
            async with self.store.reading() as connection:
                return await connection.scalar(found)
        except Unavailable:
            return None
