"""Sessions whose rows an event stopped, for readiness and the doctor.

The projector reads every message of the log, so the rows know of bytes that are no event before any
client asks for the session.
"""

from __future__ import annotations

from typing import Final

from turnlog.events.errors import Corrupt
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.projections.store.write.stopped_sessions import list_stopped_sessions

NAMED_SESSIONS: Final = 3
"""Stopped sessions that are named, with the reason of the first."""


async def require_no_stopped_sessions(store: ReadModelStore, tenant: str) -> None:
    """Raise `Corrupt` if sessions of a tenant are stopped; raises `Unavailable`."""
    async with store.open_reader() as connection:
        active = await read_active_position(connection)
        stopped = await list_stopped_sessions(connection, active.build, tenant) if active else ()
    if not stopped:
        return
    names = ", ".join(each.session for each in stopped[:NAMED_SESSIONS])
    more = ", ..." if len(stopped) > NAMED_SESSIONS else ""
    detail = f"{len(stopped)} stopped: {names}{more}; the first: {stopped[0].reason}"
    raise Corrupt("sessions", detail)
