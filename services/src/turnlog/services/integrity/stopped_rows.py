"""Sessions that an event stopped, and those with stray messages, for readiness and the doctor.

The projector reads every message of the log, so the rows know of bytes that are no event before any
client asks for the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnlog.events.errors import Corrupt
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.projections.store.write.stopped_sessions import (
    list_session_strays,
    list_stopped_sessions,
)

NAMED_SESSIONS: Final = 3
"""Stopped sessions that are named, with the reason of the first."""


async def require_sound_sessions(store: ReadModelStore, tenant: str) -> None:
    """Raise `Corrupt` if sessions of a tenant are stopped or have stray messages.

    Raises `Unavailable`.
    """
    async with store.open_reader() as connection:
        active = await read_active_position(connection)
        if active is None:
            return
        stopped = await list_stopped_sessions(connection, active.build, tenant)
        strays = await list_session_strays(connection, active.build, tenant)
    faults: list[str] = []
    if stopped:
        names = _format_names([each.session for each in stopped])
        faults.append(f"{len(stopped)} stopped: {names}; the first: {stopped[0].reason}")
    if strays:
        names = _format_names([each.session for each in strays])
        first = f"stream sequence {strays[0].position}, {strays[0].reason}"
        faults.append(f"{len(strays)} with stray messages: {names}; the first: {first}")
    if faults:
        raise Corrupt("sessions", ". ".join(faults))


def _format_names(sessions: Sequence[str]) -> str:
    more = ", ..." if len(sessions) > NAMED_SESSIONS else ""
    return f"{', '.join(sessions[:NAMED_SESSIONS])}{more}"
