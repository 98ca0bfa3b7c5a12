"""Lookups in the rows that services use: older commands, and the events of calls."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select

from turnlog.events.errors import Unavailable
from turnlog.projections.session.state import Memo, SessionState
from turnlog.projections.store.engine import Store
from turnlog.projections.store.reach import folded
from turnlog.projections.store.selecting import of_session
from turnlog.projections.store.tables import COMMANDS
from turnlog.projections.store.texts import storable


@dataclass(frozen=True, slots=True)
class FoldedCommands:
    """Finds commands that a session's state no longer holds.

    The state holds the latest keys. The rows hold all keys but may lag. A lookup therefore requires
    that the rows have reached the oldest key of the state, so that no key can be missed in between.
    """

    store: Store

    async def find(self, state: SessionState, key: str) -> Memo | None:
        """Return the record of a key; raises `Unavailable` while the rows lag too far behind."""
        oldest = state.commands[0].sequence if state.commands else state.head.sequence
        if await folded(self.store, state.tenant, state.session) < oldest:
            raise Unavailable("read models", "have not come to the commands that are remembered")
        mine = of_session(COMMANDS, state.tenant, state.session)
        found = select(COMMANDS).where(mine, COMMANDS.c.key == storable(key))
        async with self.store.reading() as connection:
            row = (await connection.execute(found)).one_or_none()
        return Memo(row.key, row.hash, row.sequence, row.turn) if row else None
