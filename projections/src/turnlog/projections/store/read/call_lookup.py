"""Where the events of a call lie in the log, looked up in the rows."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select

from turnlog.events.errors import Unavailable
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.row_filters import match_session
from turnlog.projections.store.schema.read_model_tables import CALLS, replace_nul


@dataclass(frozen=True, slots=True)
class CallLookup:
    """Finds the event with a call's prompt; rows that lag or are being built may not have it."""

    store: ReadModelStore

    async def find_call_sequence(self, tenant: str, session: str, call: str) -> int | None:
        """Return the sequence of the event that fixed a call's prompt; None if no row has it."""
        found = select(CALLS.c.sequence).where(
            match_session(CALLS, tenant, session), CALLS.c.call == replace_nul(call)
        )
        try:
            async with self.store.open_reader() as connection:
                return await connection.scalar(found)
        except Unavailable:
            return None
