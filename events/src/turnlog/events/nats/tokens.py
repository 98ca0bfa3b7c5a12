"""The token stream: it is in server memory and may be lost at any time.

Publishing does not wait and fails silently, so that problems of readers cannot disturb a reply.
Stored tokens can be read back as long as the server runs; a reader that misses tokens uses the
recorded reply.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nats import errors
from nats.aio.msg import Msg
from pydantic import ValidationError

from turnlog.events.errors import Unavailable
from turnlog.events.ids import TOKENS, token_subject
from turnlog.events.log.ports import Stamped
from turnlog.events.nats.answers import Ack, Denied, ask
from turnlog.events.nats.arrivals import Arrivals, arrivals
from turnlog.events.nats.batches import run
from turnlog.events.nats.connection import Absent, Connection
from turnlog.events.nats.fetching import Held, held, last_at_leader
from turnlog.events.nats.streams import facts_of
from turnlog.events.tokens import TOKEN_EVENT, TokenEvent

PAGE: Final = 1_000
"""Token events read back in one batch."""
CHECK_EVERY: Final = 3.0
"""Seconds without a message after which the stored tokens are read."""


@dataclass(frozen=True, slots=True)
class JetStreamTokens:
    """Token events of all turns."""

    connection: Connection

    async def publish(self, tenant: str, session: str, turn: int, event: TokenEvent) -> None:
        """See `TokenStream.publish_token`."""
        payload = TOKEN_EVENT.dump_json(event, exclude_none=True)
        with suppress(errors.Error):
            await self.connection.nc.publish(token_subject(tenant, session, turn), payload)

    async def close(self, tenant: str, session: str, turn: int, event: TokenEvent) -> bool:
        """See `TokenStream.publish_and_confirm`."""
        payload = TOKEN_EVENT.dump_json(event, exclude_none=True)
        try:
            await ask(self.connection, token_subject(tenant, session, turn), Ack, payload)
        except Unavailable:
            return False
        return True

    async def recorded(self, tenant: str, session: str, turn: int) -> Sequence[Stamped]:
        """See `TokenStream.read_token_events`."""
        found = await _held(self.connection, token_subject(tenant, session, turn), 0)
        return tuple(stamped for each in found for stamped in _stamped(each))

    async def latest(self, tenant: str, session: str, turn: int) -> Stamped | None:
        """See `TokenStream.read_latest_event`."""
        subject = token_subject(tenant, session, turn)
        try:
            newest = await last_at_leader(self.connection, TOKENS, subject)
        except (Absent, Denied):
            return None
        return next(iter(_stamped(newest)), None) if newest else None

    async def silence(self, tenant: str, session: str, turn: int) -> float | None:
        """See `TokenStream.measure_silence`."""
        subject = token_subject(tenant, session, turn)
        try:
            newest = await last_at_leader(self.connection, TOKENS, subject)
            now = (await facts_of(self.connection, TOKENS)).now
        except (Absent, Denied):
            return None
        return (now - datetime.fromisoformat(newest.time)).total_seconds() if newest else None

    @asynccontextmanager
    async def watch(
        self, tenant: str, session: str, turn: int
    ) -> AsyncGenerator[AsyncGenerator[TokenEvent]]:
        """See `TokenStream.watch_turn`."""
        subject = token_subject(tenant, session, turn)
        async with arrivals(self.connection, subject) as live:
            flow = _flow(self.connection, subject, live)
            try:
                yield flow
            finally:
                await flow.aclose()


async def _flow(connection: Connection, subject: str, live: Arrivals) -> AsyncGenerator[TokenEvent]:
    seen = 0
    message: Msg | None = None
    while True:
        for each in await _unseen(connection, subject, seen, message):
            seen = each.stream_sequence
            for event in _events(each):
                yield event
        message = await live.next(CHECK_EVERY)


async def _unseen(
    connection: Connection, subject: str, seen: int, message: Msg | None
) -> list[Held]:
    """Return the message if it is the next one, else all unseen token events that are stored."""
    if message is not None and message.headers is not None:
        if int(message.headers["Nats-Sequence"]) <= seen:
            return []
        if int(message.headers["Nats-Last-Sequence"]) <= seen:
            return [held(message)]
    try:
        return await _held(connection, subject, seen)
    except Unavailable:
        return []


async def _held(connection: Connection, subject: str, behind: int) -> list[Held]:
    found: list[Held] = []
    with suppress(Absent):
        while page := await run(connection, TOKENS, subject, behind + 1, PAGE):
            found += page
            behind = page[-1].stream_sequence
    return found


def _stamped(found: Held) -> tuple[Stamped, ...]:
    return tuple(Stamped(event, datetime.fromisoformat(found.time)) for event in _events(found))


def _events(found: Held) -> tuple[TokenEvent, ...]:
    """Decode a token event; empty if this release does not know its kind."""
    try:
        return (TOKEN_EVENT.validate_json(found.payload),)
    except ValidationError:
        return ()
