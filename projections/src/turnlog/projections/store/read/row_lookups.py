"""Lookups in the rows that spare a scan: old commands by their key, and the prompt of a call.

The rows may lag behind the log, and each lookup says what it does then.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select

from turnlog.events.errors import Unavailable
from turnlog.projections.session.state import IdempotencyRecord, SessionState
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import read_folded_sequence
from turnlog.projections.store.read.row_filters import match_session
from turnlog.projections.store.schema.read_model_tables import CALLS, COMMANDS, replace_nul


@dataclass(frozen=True, slots=True)
class CommandLookup:
    """Finds commands that a session's state no longer holds.

    The state holds the latest keys. The rows hold all keys but may lag. A lookup therefore requires
    that the rows have reached the oldest key of the state, so that no key can be missed in between.
    """

    store: ReadModelStore

    async def find_command(self, state: SessionState, key: str) -> IdempotencyRecord | None:
        """Return the record of a key; raises `Unavailable` while the rows lag too far behind."""
        oldest = state.commands[0].sequence if state.commands else state.head.sequence
        if await read_folded_sequence(self.store, state.tenant, state.session) < oldest:
            raise Unavailable("read models", "have not reached the commands with recorded keys")
        mine = match_session(COMMANDS, state.tenant, state.session)
        found = select(COMMANDS).where(mine, COMMANDS.c.key == replace_nul(key))
        async with self.store.open_reader() as connection:
            row = (await connection.execute(found)).one_or_none()
        return IdempotencyRecord(row.key, row.hash, row.sequence, row.turn) if row else None


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
