from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from turnlog.events.envelope import Recorded
from turnlog.events.errors import Unavailable
from turnlog.events.log.ports import Log, TokenStream
from turnlog.events.nats.cursor import InSession
from turnlog.events.tokens import TokenEvent


@dataclass(frozen=True, slots=True)
class Spoken:
    """A token event of a turn, while its reply is generated."""

    turn: int
    event: TokenEvent


Told = tuple[InSession, Recorded | Spoken]


async def session_told(
    log: Log, tokens: TokenStream, tenant: str, session: str, place: InSession, upto: int | None
) -> AsyncGenerator[Told]:
    """Yield the events after `place`, and token events between them from sequence `upto` on.

    Turns that open before `upto` are history, except the one that was being streamed at `place`.
    Without `upto` no token events are yielded.
    """
    resumed = place.turn
    async with aclosing(log.watch(tenant, session, place.sequence)) as events:
        while True:
            present = upto is not None and (place.sequence >= upto or place.turn == resumed)
            if place.turn and present:
                async with aclosing(_turn(events, tokens, tenant, session, place)) as told:
                    async for reached, item in told:
                        place = reached
                        yield place, item
            else:
                event = await anext(events)
                place = place.after(event)
                yield place, event


async def _turn(
    events: AsyncGenerator[Recorded],
    tokens: TokenStream,
    tenant: str,
    session: str,
    place: InSession,
) -> AsyncGenerator[Told]:
    """Yield token events and events until the open turn is settled."""
    turn = place.turn
    async with (
        tokens.watch(tenant, session, turn) as words,
        aclosing(_merged(events, words)) as merged,
    ):
        async for item in merged:
            settled = isinstance(item, Recorded) and place.after(item).turn != turn
            for word in await _held(tokens, tenant, session, turn) if settled else ():
                if heard := place.hearing(word):
                    place = heard
                    yield place, Spoken(turn, word)
            if isinstance(item, Recorded):
                place = place.after(item)
                yield place, item
            elif heard := place.hearing(item):
                place = heard
                yield place, Spoken(turn, item)
            if settled:
                return


async def _held(
    tokens: TokenStream, tenant: str, session: str, turn: int
) -> tuple[TokenEvent, ...]:
    """Return the stored token events of the turn, or none if they cannot be read."""
    try:
        held = await tokens.recorded(tenant, session, turn)
    except Unavailable:
        return ()
    return tuple(stamped.event for stamped in held)


async def _merged(
    events: AsyncGenerator[Recorded], words: AsyncGenerator[TokenEvent]
) -> AsyncGenerator[Recorded | TokenEvent]:
    """Yield items of both streams as they arrive; an item is only taken when it is yielded."""
    event: asyncio.Future[Recorded] | None = None
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
        await _dropped(event, word)


async def _dropped(*futures: asyncio.Future[Any] | None) -> None:
    begun = [future for future in futures if future is not None]
    for future in begun:
        future.cancel()
    await asyncio.gather(*begun, return_exceptions=True)
