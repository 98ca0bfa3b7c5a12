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
from turnlog.events.model.tool_events import ApprovalDecided, ApprovalRequested
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.store.ports import TokenStream
from turnlog.projections.read_models.turn_activity import (
    NO_ACTIVITY,
    ActivityByTurn,
    collect_activity,
    is_undecided,
    update_activity,
)
from turnlog.projections.session.fold.settled_turns import find_settled_turn
from turnlog.projections.session.state import SessionState, SettledTurnRef
from turnlog.projections.session.text_refs import TextRef
from turnlog.services.gateway.dependencies import GatewayDependencies
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


def _find_turn_text(state: SessionState, turn: int) -> TextRef | None:
    """Return the reference to a turn's text, which is in its first event; None when unknown."""
    opened = [each for each in (state.open, *state.waiting) if each and each.turn == turn]
    if opened:
        return opened[0].text
    settled = find_settled_turn(state, turn)
    if settled is None:
        raise Refused("unknown-turn", f"there is no turn {turn}", field="turn")
    return settled.text if isinstance(settled, SettledTurnRef) else None


async def load_turn_events(
    deps: GatewayDependencies, state: SessionState, turn: int
) -> Sequence[RecordedEvent]:
    """Return the session's events from the turn's text to the head; all if it has no text.

    Raises `Refused` if there is no such turn.
    """
    turn_text = _find_turn_text(state, turn)
    places = [state.head.stream_sequence, *([turn_text.place] if turn_text else [])]
    last, *first = await deps.log.read_events_at(state.tenant, places)
    before = first[0].head if first else None
    return (*first, *await deps.log.read_range(state.tenant, state.session, before, last))


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
    last, activity = past[-1], collect_activity(past)
    # A client that reconnects is told of what waits again, since its cursor does not say.
    for use in activity.get(at.turn, NO_ACTIVITY).uses:
        waiting = build_approval_event(at, use) if is_undecided(use) else None
        if waiting is not None:
            yield _encode_turn_event(waiting)
    tenant, session, wake = last.tenant, last.session, asyncio.Event()
    async with (
        deps.log.open_session_watch(tenant, session, last.sequence, wake) as log,
        deps.tokens.open_turn_watch(tenant, session, at.turn, wake, is_new=is_new) as tokens,
        aclosing(merge_watches(wake, tokens, log)) as items,
    ):
        async for item in items:
            if isinstance(item, RecordedEvent):
                deps.command_handler.apply_observed_event(item)
                record = apply_log_events(record, (item,))
                at, events = advance_by_record(at, record)
                if changed := _find_approval_change(at, activity, item):
                    events = (*events, changed)
            else:
                at, events = advance_by_token(at, item)
            for each in events:
                yield _encode_turn_event(each)
            if at.end:
                return


def _find_approval_change(
    at: TurnCursor, activity: ActivityByTurn, recorded: RecordedEvent
) -> TurnStreamEvent | None:
    """Apply an event to the activity; return what it says of an approval of the turn."""
    update_activity(activity, recorded)
    match recorded.event:
        case ApprovalRequested() | ApprovalDecided() as event if event.turn == at.turn:
            uses = activity.get(at.turn, NO_ACTIVITY).uses
            named = (use for use in uses if (use.call, use.id) == (event.call, event.id))
            return next((build_approval_event(at, use) for use in named), None)
        case _:
            return None


def _encode_turn_event(event: TurnStreamEvent) -> bytes:
    data = event.payload.model_dump_json().encode()
    return encode_frame(event.name, data, str(event.cursor))
