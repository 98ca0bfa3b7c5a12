"""The events of a session, stored and then live, with the tokens of its replies between them.

Token events of a turn are yielded between the event that opens it and the one that settles it, as
`log_token_join` joins them with the log: only if they continue the text yielded before. The text
received since the last `AttemptReset` is therefore always a prefix of the recorded reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from turnlog.events.async_tasks import Watch, merge_watches, wait_for_wake
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Unavailable
from turnlog.events.log_token_join import (
    ReplyPosition,
    ReplyRecord,
    ReplyStep,
    advance_to_recorded_attempt,
    apply_log_events,
    apply_token_event,
    create_resumed_record,
)
from turnlog.events.model.turn_events import (
    TurnCompleted,
    TurnFailed,
    TurnReleased,
    TurnSubmitted,
    is_end_of_turn,
)
from turnlog.events.store.ports import EventLog, TokenStream, TurnTokenEvent
from turnlog.events.tokens import AttemptAlive, TokenEvent


@dataclass(frozen=True, slots=True)
class SessionPosition:
    """A position in a session: after an event, and within the reply to its open turn."""

    sequence: int = 0
    reply: ReplyPosition = field(default_factory=ReplyPosition)
    """The position in the reply to the open turn."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in the cursor; a closed attempt has one code point more."""
        reply = self.reply
        return (self.sequence, reply.turn, reply.attempt, reply.offset + reply.is_closed)

    def advance_past(self, event: RecordedEvent) -> SessionPosition:
        """Return the position after an event; how it moves in an open reply is up to the join."""
        match event.event:
            case TurnSubmitted(turn=turn) | TurnReleased(turn=turn):
                return SessionPosition(event.sequence, ReplyPosition(turn=turn))
            case _ if is_end_of_turn(event.event, self.reply.turn):
                return SessionPosition(event.sequence)
            case _:
                return replace(self, sequence=event.sequence)


SessionItem = tuple[SessionPosition, RecordedEvent | TurnTokenEvent]


async def stream_session(
    log: EventLog,
    tokens: TokenStream,
    tenant: str,
    session: str,
    position: SessionPosition,
    upto: int | None,
) -> AsyncGenerator[SessionItem]:
    """Yield the events after `position`, and token events between them from sequence `upto` on.

    Turns that open before `upto` are history, except the one that was being streamed at `position`.
    Without `upto` no token events are yielded.
    """
    resumed_turn = position.reply.turn
    wake = asyncio.Event()
    async with log.open_session_watch(tenant, session, position.sequence, wake) as events:
        while True:
            turn = position.reply.turn
            is_live = upto is not None and (position.sequence >= upto or turn == resumed_turn)
            if turn and is_live:
                async with aclosing(
                    _stream_open_turn(
                        events=events,
                        wake=wake,
                        tokens=tokens,
                        tenant=tenant,
                        session=session,
                        position=position,
                    )
                ) as items:
                    async for item in items:
                        position, _ = item
                        yield item
            else:
                wake.clear()
                event = await events.take_next()
                if event is None:
                    await wait_for_wake(wake)
                    continue
                position = position.advance_past(event)
                yield position, event


async def _stream_open_turn(
    events: Watch[RecordedEvent],
    wake: asyncio.Event,
    tokens: TokenStream,
    tenant: str,
    session: str,
    position: SessionPosition,
) -> AsyncGenerator[SessionItem]:
    """Yield token events and events until the open turn is settled.

    The event that settles the turn has the recorded reply, so its text is not repeated as tokens;
    only stored token events that had not arrived yet come before it.
    """
    turn = position.reply.turn
    record = create_resumed_record(position.reply)
    async with (
        tokens.open_turn_watch(tenant, session, turn, wake) as live_tokens,
        aclosing(merge_watches(wake, live_tokens, events)) as merged,
    ):
        async for arrived in merged:
            if isinstance(arrived, RecordedEvent):
                record = apply_log_events(record, (arrived,))
                step = advance_to_recorded_attempt(position.reply, record)
                position, items = _apply_reply_step(position, step)
                for missed in await _read_missed_tokens(tokens, tenant, session, record):
                    step = apply_token_event(position.reply, missed)
                    position, more = _apply_reply_step(position, step)
                    items += more
                position = position.advance_past(arrived)
                items.append((position, arrived))
            else:
                step = apply_token_event(position.reply, arrived)
                position, items = _apply_reply_step(position, step)
            for item in items:
                yield item
            if position.reply.turn != turn:
                return


def _apply_reply_step(
    position: SessionPosition, step: ReplyStep
) -> tuple[SessionPosition, list[SessionItem]]:
    """Return the position after a step, and its items; heartbeats are left out."""
    reply, reply_items = step
    items: list[SessionItem] = [
        (replace(position, reply=item.position), TurnTokenEvent(reply.turn, item.event))
        for item in reply_items
        if not isinstance(item.event, AttemptAlive)
    ]
    return replace(position, reply=reply), items


async def _read_missed_tokens(
    tokens: TokenStream, tenant: str, session: str, record: ReplyRecord
) -> tuple[TokenEvent, ...]:
    """Return the stored token events of a turn that ended with a text; none if they are lost."""
    if not isinstance(record.end_event, TurnCompleted | TurnFailed):
        return ()
    try:
        stored = await tokens.read_token_events(tenant, session, record.turn)
    except Unavailable:
        return ()
    return tuple(stamped.event for stamped in stored)
