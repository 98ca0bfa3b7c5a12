from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Unavailable
from turnlog.events.log.ports import EventLog, TokenStream
from turnlog.events.nats.cursor import SessionPosition
from turnlog.events.tokens import TokenEvent


@dataclass(frozen=True, slots=True)
class TurnTokenEvent:
    """A token event of a turn, while its reply is generated."""

    turn: int
    event: TokenEvent


SessionItem = tuple[SessionPosition, RecordedEvent | TurnTokenEvent]


async def stream_session(
    log: EventLog, tokens: TokenStream, tenant: str, session: str, place: SessionPosition, upto: int | None
) -> AsyncGenerator[SessionItem]:
    """Yield the events after `place`, and token events between them from sequence `upto` on.

    Turns that open before `upto` are history, except the one that was being streamed at `place`.
    Without `upto` no token events are yielded.
    """
    resumed = place.turn
    async with aclosing(log.watch_session(tenant, session, place.sequence)) as events:
        while True:
            present = upto is not None and (place.sequence >= upto or place.turn == resumed)
            if place.turn and present:
                async with aclosing(_stream_open_turn(events, tokens, tenant, session, place)) as told:
                    async for reached, item in told:
                        place = reached
                        yield place, item
            else:
                event = await anext(events)
                place = place.advance_past(event)
                yield place, event


async def _stream_open_turn(
    events: AsyncGenerator[RecordedEvent],
    tokens: TokenStream,
    tenant: str,
    session: str,
    place: SessionPosition,
) -> AsyncGenerator[SessionItem]:
    """Yield token events and events until the open turn is settled."""
    turn = place.turn
    async with (
        tokens.watch_turn(tenant, session, turn) as words,
        aclosing(_merge_streams(events, words)) as merged,
    ):
        async for item in merged:
            settled = isinstance(item, RecordedEvent) and place.advance_past(item).turn != turn
            for word in await _read_missed_tokens(tokens, tenant, session, turn) if settled else ():
                if heard := place.advance_by_token(word):
                    place = heard
                    yield place, TurnTokenEvent(turn, word)
            if isinstance(item, RecordedEvent):
                place = place.advance_past(item)
                yield place, item
            elif heard := place.advance_by_token(item):
                place = heard
                yield place, TurnTokenEvent(turn, item)
            if settled:
                return


async def _read_missed_tokens(
    tokens: TokenStream, tenant: str, session: str, turn: int
) -> tuple[TokenEvent, ...]:
    """Return the stored token events of the turn, or none if they cannot be read."""
    try:
        held = await tokens.read_token_events(tenant, session, turn)
    except Unavailable:
        return ()
    return tuple(stamped.event for stamped in held)


async def _merge_streams(
    events: AsyncGenerator[RecordedEvent], words: AsyncGenerator[TokenEvent]
) -> AsyncGenerator[RecordedEvent | TokenEvent]:
    """Yield items of both streams as they arrive; an item is only taken when it is yielded."""
    event: asyncio.Future[RecordedEvent] | None = None
    word: asyncio.Future[TokenEvent] | None = None
    try:
        while True:
            event = event or asyncio.ensure_future(anext(events))
            word = word or asyncio.ensure_future(anext(words))
            await asyncio.wait((event, word), return_when=asyncio.FIRST_COMPLETED)
            if word.done():
                said, word = word, None
                yield said.result()
            if event.done():
                happened, event = event, None
                yield happened.result()
    finally:
        await _cancel_futures(event, word)


async def _cancel_futures(*futures: asyncio.Future[Any] | None) -> None:
    begun = [future for future in futures if future is not None]
    for future in begun:
        future.cancel()
    await asyncio.gather(*begun, return_exceptions=True)
