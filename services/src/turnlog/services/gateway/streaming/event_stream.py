"""Streams of stored events, of one session or of a whole tenant: past events, then live ones.

A frame holds an event as its reader gets it: the stored bytes, or the form without a withheld text.
A stream shows what was withheld before it began or before the event came; a redaction that comes
later is an event of the stream itself. Its id is the position to resume from: the session's
sequence, or the stream sequence for all sessions. Filters apply after past and live events are
joined, so they cause no gaps.

Where the log has lost an event, the stream ends with an `unreadable` frame. Its id is the position
before the lost event, so a client that resumes there is told again.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from typing import Final

import structlog

from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.registry import format_event_name
from turnlog.events.store.ports import EventLog, RawEvent
from turnlog.projections.read_models.withheld_events import RedactedTurns
from turnlog.services.api.published_events.stream_payloads import UnreadablePayload
from turnlog.services.audit.redactions import load_session_redactions
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
    *,
    stored: bool,
) -> SseResponse:
    """Return the stream of a session's events after a sequence.

    `names` limits the event names; None selects all. `stored` asks for the stored bytes always.
    """
    state = await deps.command_handler.load_state(tenant, session, leader=True)
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    place = _parse_position(after)
    if place > state.head.sequence:
        raise create_cursor_refusal(f"the session has {state.head.sequence} events")
    last = await deps.command_handler.load_last_event(tenant, session)
    redacted = None if stored else await load_session_redactions(deps.log, last)
    events = deps.log.watch_session(tenant, session, place)
    frames = _iterate_session_frames(events, place, names, redacted)
    return SseResponse(frames, get_stream_timeouts(deps.settings), deps.shutdown_event)


async def open_tenant_event_stream(
    deps: GatewayDependencies,
    tenant: str,
    after: str | None,
    names: Collection[str] | None,
    *,
    stored: bool,
) -> SseResponse:
    """Return the stream of all sessions' events after a stream sequence."""
    place = _parse_position(after)
    if place:
        await _check_position_exists(deps.log, tenant, place)
    redacted = None if stored else await deps.redactions.load_redactions(deps.log, tenant)
    bulks = deps.log.stream_raw_events(tenant, place, live=True)
    frames = _iterate_tenant_frames(bulks, place, names, redacted)
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
    watched: AsyncGenerator[RecordedEvent],
    position: int,
    names: Collection[str] | None,
    redacted: RedactedTurns | None,
) -> AsyncGenerator[bytes]:
    async with aclosing(watched) as events:
        try:
            async for event in events:
                position = event.sequence
                data = _format_event(event, redacted)
                if (name := _select_event_name(event, names)) is not None:
                    yield encode_frame(name, data, str(position))
        except Corrupt as corrupt:
            yield _encode_end(corrupt, position)


async def _iterate_tenant_frames(
    streamed: AsyncGenerator[Sequence[RawEvent]],
    position: int,
    names: Collection[str] | None,
    redacted: RedactedTurns | None,
) -> AsyncGenerator[bytes]:
    async with aclosing(streamed) as bulks:
        try:
            async for bulk in bulks:
                for raw in bulk:
                    position = raw.stream_sequence
                    frame = _encode_raw_event(raw, names, redacted)
                    if frame:
                        yield frame
        except Corrupt as corrupt:
            yield _encode_end(corrupt, position)


def _encode_end(corrupt: Corrupt, position: int) -> bytes:
    """Return the frame with which a stream ends that cannot be read on."""
    _log.error("stream-unreadable", where=corrupt.where, detail=corrupt.detail)
    return _encode_unreadable(corrupt.where, corrupt.detail, position)


def _encode_unreadable(subject: str, detail: str, position: int) -> bytes:
    payload = UnreadablePayload(subject=subject, detail=detail)
    return encode_frame(payload.event, payload.model_dump_json().encode(), str(position))


def _encode_raw_event(
    raw: RawEvent, names: Collection[str] | None, redacted: RedactedTurns | None
) -> bytes:
    try:
        event = decode_event(raw.stored, raw.stream_sequence)
    except Corrupt as corrupt:
        return _encode_unreadable(raw.subject, corrupt.detail, raw.stream_sequence)
    data, name = _format_event(event, redacted), _select_event_name(event, names)
    return encode_frame(name, data, str(raw.stream_sequence)) if name else b""


def _format_event(event: RecordedEvent, redacted: RedactedTurns | None) -> bytes:
    """Return an event as this reader gets it; a redaction applies to what follows it."""
    if redacted is None:
        return event.stored
    redacted.apply_event(event)
    return redacted.format_for_reader(event)


def _select_event_name(event: RecordedEvent, names: Collection[str] | None) -> str | None:
    name = format_event_name(event.envelope.type)
    return name if names is None or name in names else None
