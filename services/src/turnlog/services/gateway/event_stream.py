"""Streams of stored events, of one session or of a whole tenant: past events, then live ones.

A frame holds the stored bytes of an event. Its id is the position to resume from: the session's
sequence, or the stream sequence for all sessions. Filters apply after past and live events are
joined, so they cause no gaps.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Final

from turnlog.events.codec import read
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.kinds import name_of
from turnlog.events.log.ports import Log, Raw
from turnlog.services.gateway.desk import Desk
from turnlog.services.gateway.sse import EventStream, framed, pace
from turnlog.services.gateway.turn_cursor import bad_cursor

_PLACE: Final = re.compile("0|[1-9][0-9]{0,17}")


async def session_event_stream(
    desk: Desk, tenant: str, session: str, after: str | None, names: Collection[str] | None
) -> EventStream:
    """Return the stream of a session's events after a sequence.

    `names` limits the event names; None selects all.
    """
    state = await desk.sessions.load(tenant, session, leader=True)
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    place = _place(after)
    if place > state.head.sequence:
        raise bad_cursor(f"the session has {state.head.sequence} events")
    frames = _of_session(desk.log, tenant, session, place, names)
    return EventStream(frames, pace(desk.settings), desk.stopping)


async def tenant_event_stream(
    desk: Desk, tenant: str, after: str | None, names: Collection[str] | None
) -> EventStream:
    """Return the stream of all sessions' events after a stream sequence."""
    place = _place(after)
    if place:
        await _refuse_invented(desk.log, tenant, place)
    frames = _of_tenant(desk.log, tenant, place, names)
    return EventStream(frames, pace(desk.settings), desk.stopping)


def _place(after: str | None) -> int:
    if after is None:
        return 0
    if _PLACE.fullmatch(after) is None:
        raise bad_cursor("it is not the id of an event")
    return int(after)


async def _refuse_invented(log: Log, tenant: str, place: int) -> None:
    try:
        await log.at(tenant, [place])
    except Corrupt:
        raise bad_cursor("no event has this id") from None


async def _of_session(
    log: Log, tenant: str, session: str, place: int, names: Collection[str] | None
) -> AsyncGenerator[bytes]:
    async with aclosing(log.watch(tenant, session, place)) as events:
        async for event in events:
            if (name := _wanted(event, names)) is not None:
                yield framed(name, event.stored, str(event.sequence))


async def _of_tenant(
    log: Log, tenant: str, place: int, names: Collection[str] | None
) -> AsyncGenerator[bytes]:
    async with aclosing(log.follow(tenant, place, live=True)) as bulks:
        async for bulk in bulks:
            for raw in bulk:
                frame = _framed(raw, names)
                if frame:
                    yield frame


def _framed(raw: Raw, names: Collection[str] | None) -> bytes:
    try:
        event = read(raw.stored, raw.stream_sequence)
    except Corrupt as corrupt:
        data = json.dumps({"subject": raw.subject, "detail": corrupt.detail}).encode()
        return framed("unreadable", data, str(raw.stream_sequence))
    name = _wanted(event, names)
    return framed(name, raw.stored, str(raw.stream_sequence)) if name else b""


def _wanted(event: Recorded, names: Collection[str] | None) -> str | None:
    name = name_of(event.envelope.type)
    return name if names is None or name in names else None
