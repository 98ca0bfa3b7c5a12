"""The stream of one turn: its reply from the event log and the token stream, as SSE.

The stream subscribes to both sources before it reads either, and joins them by the rules of
`log_token_join`. The cursor is the only state of a client, so any gateway can resume a stream that
another one began. The stream waits for a queued turn. A turn that has ended costs one read of the
log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from starlette.responses import Response

from turnlog.events.async_tasks import merge_watches
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.log_token_join import (
    ReplyRecord,
    apply_log_events,
    is_ahead_of_tokens,
    restore_received_text,
)
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.store.ports import TokenStream
from turnlog.projections.session.state import SessionState
from turnlog.services.gateway.dependencies import GatewayDependencies
from turnlog.services.gateway.streaming.approval_watch import (
    GuardedTool,
    load_turn_events,
    open_approval_watch,
)
from turnlog.services.gateway.streaming.sse import SseResponse, encode_frame, get_stream_timeouts
from turnlog.services.gateway.streaming.turn_cursor import (
    TurnCursor,
    create_cursor_refusal,
    parse_turn_cursor,
)
from turnlog.services.gateway.streaming.turn_stream_events import (
    TurnStreamEvent,
    advance_by_record,
    advance_by_token,
    build_approval_event,
    resume_cursor,
)
from turnlog.services.sessions.command_handler import CommandOutcome

TOKEN_REPLICA_TRIES: Final = 10
"""How often a lagging replica of the token stream is read before a cursor is trusted."""

TOKEN_REPLICA_RETRY_SECONDS: Final = 0.1
"""Seconds between two of those reads."""


async def open_turn_stream(
    deps: GatewayDependencies, tenant: str, session: str, turn: int, after: str | None
) -> Response:
    """Return the stream of a turn after a cursor, or 204 when the client has had its end."""
    state = await deps.command_handler.load_state(tenant, session, leader=True)
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    past = await load_turn_events(deps, state, turn)
    record = apply_log_events(ReplyRecord(turn), past)
    at = resume_cursor(
        TurnCursor(turn) if after is None else parse_turn_cursor(after, turn), record
    )
    if at is None:
        return Response(status_code=204)
    if not isinstance(record.end_event, TurnCompleted):
        await _check_cursor_reached(deps.tokens, state, at, record)
    at = await _restore_received_text(deps.tokens, state, at)
    frames = _iterate_turn_frames(deps, past, at, record)
    return SseResponse(frames, get_stream_timeouts(deps.settings), deps.shutdown_event)


def open_new_turn_stream(deps: GatewayDependencies, done: CommandOutcome, turn: int) -> Response:
    """Return the stream of a turn that was submitted by this request, which has no past."""
    record = apply_log_events(ReplyRecord(turn), done.events)
    frames = _iterate_turn_frames(deps, done.events, TurnCursor(turn), record, is_new=True)
    return SseResponse(frames, get_stream_timeouts(deps.settings), deps.shutdown_event)


async def _check_cursor_reached(
    tokens: TokenStream, state: SessionState, at: TurnCursor, record: ReplyRecord
) -> None:
    """Refuse a cursor that is ahead of the text of its attempt, unless the attempt was abandoned.

    A replica may lag behind the leader: its answer counts once it has the latest token event.
    """
    if at.attempt < record.attempt or at.offset <= len(record.partial_text):
        return
    newest = await tokens.read_latest_event(state.tenant, state.session, at.turn)
    for _ in range(TOKEN_REPLICA_TRIES):
        stored = await tokens.read_token_events(state.tenant, state.session, at.turn)
        if not is_ahead_of_tokens(at.position, (stamped.event for stamped in stored)):
            return
        if newest is None or stored[-1].at >= newest.at:
            raise create_cursor_refusal(
                f"attempt {at.attempt} has not produced {at.offset} code points"
            )
        await asyncio.sleep(TOKEN_REPLICA_RETRY_SECONDS)


async def _restore_received_text(
    tokens: TokenStream, state: SessionState, at: TurnCursor
) -> TurnCursor:
    """Return the cursor with what its client got on earlier connections, while that is known."""
    if at.offset == 0:
        return at
    try:
        stored = await tokens.read_token_events(state.tenant, state.session, at.turn)
    except Unavailable:
        return at  # What was sent since is compared anyway.
    position = restore_received_text(at.position, (stamped.event for stamped in stored))
    return replace(at, received=position.received)


async def _iterate_turn_frames(
    deps: GatewayDependencies,
    past: Sequence[RecordedEvent],
    at: TurnCursor,
    record: ReplyRecord,
    *,
    is_new: bool = False,
) -> AsyncGenerator[bytes]:
    at, events = advance_by_record(at, record)
    for each in events:
        yield _encode_turn_event(each)
    if at.end:
        return
    last, wake = past[-1], asyncio.Event()
    tenant, session = last.tenant, last.session
    # A client that reconnects is told of what waits again, since its cursor does not say.
    async with (
        deps.log.open_session_watch(tenant, session, last.sequence, wake) as own,
        open_approval_watch(deps, own, (tenant, session), at.turn, wake, past) as log,
        deps.tokens.open_turn_watch(tenant, session, at.turn, wake, is_new=is_new) as tokens,
        aclosing(merge_watches(wake, tokens, log)) as items,
    ):
        async for item in items:
            if isinstance(item, RecordedEvent):
                deps.command_handler.apply_observed_event(item)
                record = apply_log_events(record, (item,))
                at, events = advance_by_record(at, record)
            elif isinstance(item, GuardedTool):
                events = (build_approval_event(at, item),)
            else:
                at, events = advance_by_token(at, item)
            for each in events:
                yield _encode_turn_event(each)
            if at.end:
                return


def _encode_turn_event(event: TurnStreamEvent) -> bytes:
    data = event.payload.model_dump_json().encode()
    return encode_frame(event.name, data, str(event.cursor))
