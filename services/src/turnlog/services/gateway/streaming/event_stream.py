"""Streams of stored events, of one session or of a whole tenant: past events, then live ones.

A frame holds the stored bytes of an event. Its id is the position to resume from: the session's
sequence, or the stream sequence for all sessions. Filters apply after past and live events are
joined, so they cause no gaps.

Where the log has lost an event, the stream ends with an `unreadable` frame. Its id is the position
before the lost event, so a client that resumes there is told again.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Final

import structlog

from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.registry import format_event_name
from turnlog.events.store.ports import EventLog, RawEvent
from turnlog.services.gateway.dependencies import GatewayDependencies
from turnlog.services.gateway.streaming.sse import SseResponse, encode_frame, get_stream_timeouts
from turnlog.services.gateway.streaming.turn_cursor import create_cursor_refusal

_log = structlog.get_logger("turnlog.events")

_POSITION_PATTERN: Final = re.compile("0|[1-9][0-9]{0,17}")


async def open_session_event_stream(
    deps: GatewayDependencies,
    tenant: str,
    session: str,
    after: str | None,
    names: Collection[str] | None,
) -> SseResponse:
    """Return the stream of a session's events after a sequence.

    `names` limits the event names; None selects all.
    """
    state = await deps.command_handler.load_state(tenant, session, leader=True)
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    place = _parse_position(after)
    if place > state.head.sequence:
        raise create_cursor_refusal(f"the session has {state.head.sequence} events")
    frames = _iterate_session_frames(deps.log, tenant, session, place, names)
    return SseResponse(frames, get_stream_timeouts(deps.settings), deps.shutdown_event)


async def open_tenant_event_stream(
    deps: GatewayDependencies, tenant: str, after: str | None, names: Collection[str] | None
) -> SseResponse:
    """Return the stream of all sessions' events after a stream sequence."""
    place = _parse_position(after)
    if place:
        await _check_position_exists(deps.log, tenant, place)
    frames = _iterate_tenant_frames(deps.log, tenant, place, names)
    return SseResponse(frames, get_stream_timeouts(deps.settings), deps.shutdown_event)


def _parse_position(after: str | None) -> int:
    if after is None:
        return 0
    if _POSITION_PATTERN.fullmatch(after) is None:
        raise create_cursor_refusal("it is not the id of an event")
    return int(after)


async def _check_position_exists(log: EventLog, tenant: str, position: int) -> None:
    try:
        await log.read_events_at(tenant, [position])
    except Corrupt:
        raise create_cursor_refusal("no event has this id") from None


async def _iterate_session_frames(
    log: EventLog, tenant: str, session: str, position: int, names: Collection[str] | None
) -> AsyncGenerator[bytes]:
    async with aclosing(log.watch_session(tenant, session, position)) as events:
        try:
            async for event in events:
                position = event.sequence
                if (name := _select_event_name(event, names)) is not None:
                    yield encode_frame(name, event.stored, str(position))
        except Corrupt as corrupt:
            yield _encode_end(corrupt, position)


async def _iterate_tenant_frames(
    log: EventLog, tenant: str, position: int, names: Collection[str] | None
) -> AsyncGenerator[bytes]:
    async with aclosing(log.stream_raw_events(tenant, position, live=True)) as bulks:
        try:
            async for bulk in bulks:
                for raw in bulk:
                    position = raw.stream_sequence
                    frame = _encode_raw_event(raw, names)
                    if frame:
                        yield frame
        except Corrupt as corrupt:
            yield _encode_end(corrupt, position)


def _encode_end(corrupt: Corrupt, position: int) -> bytes:
    """Return the frame with which a stream ends that cannot be read on."""
    _log.error("stream-unreadable", where=corrupt.where, detail=corrupt.detail)
    data = json.dumps({"subject": corrupt.where, "detail": corrupt.detail}).encode()
    return encode_frame("unreadable", data, str(position))


def _encode_raw_event(raw: RawEvent, names: Collection[str] | None) -> bytes:
    try:
        event = decode_event(raw.stored, raw.stream_sequence)
    except Corrupt as corrupt:
        data = json.dumps({"subject": raw.subject, "detail": corrupt.detail}).encode()
        return encode_frame("unreadable", data, str(raw.stream_sequence))
    name = _select_event_name(event, names)
    return encode_frame(name, raw.stored, str(raw.stream_sequence)) if name else b""


def _select_event_name(event: RecordedEvent, names: Collection[str] | None) -> str | None:
    name = format_event_name(event.envelope.type)
    return name if names is None or name in names else None
