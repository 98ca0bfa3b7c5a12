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
from turnlog.events.jetstream.direct_get import (
    StoredMessage,
    get_consecutive_messages,
    get_last_message_at_leader,
    parse_stored_message,
)
from turnlog.events.jetstream.js_api import JsApiError, PublishAck, fetch_stream_info, request_json
from turnlog.events.jetstream.nats_connection import NatsConnection, RequestNotSent
from turnlog.events.jetstream.subscriptions import LiveSubscription, open_live_subscription
from turnlog.events.store.ports import StampedTokenEvent
from turnlog.events.subjects import TOKENS_STREAM, build_token_subject
from turnlog.events.tokens import TOKEN_EVENT, TokenEvent

TOKEN_PAGE_SIZE: Final = 1_000
"""Token events read back in one batch."""

TOKEN_CHECK_SECONDS: Final = 3.0
"""Seconds without a message after which the stored tokens are read."""


@dataclass(frozen=True, slots=True)
class JetStreamTokenStream:
    """Token events of all turns."""

    connection: NatsConnection

    async def publish_token(self, tenant: str, session: str, turn: int, event: TokenEvent) -> None:
        """See `TokenStream.publish_token`."""
        payload = TOKEN_EVENT.dump_json(event, exclude_none=True)
        with suppress(errors.Error):
            await self.connection.nc.publish(build_token_subject(tenant, session, turn), payload)

    async def publish_and_confirm(
        self, tenant: str, session: str, turn: int, event: TokenEvent
    ) -> bool:
        """See `TokenStream.publish_and_confirm`."""
        payload = TOKEN_EVENT.dump_json(event, exclude_none=True)
        try:
            await request_json(
                self.connection, build_token_subject(tenant, session, turn), PublishAck, payload
            )
        except Unavailable:
            return False
        return True

    async def read_token_events(
        self, tenant: str, session: str, turn: int
    ) -> Sequence[StampedTokenEvent]:
        """See `TokenStream.read_token_events`."""
        found = await _read_stored(self.connection, build_token_subject(tenant, session, turn), 0)
        return tuple(stamped for each in found for stamped in _decode_stamped(each))

    async def read_latest_event(
        self, tenant: str, session: str, turn: int
    ) -> StampedTokenEvent | None:
        """See `TokenStream.read_latest_event`."""
        subject = build_token_subject(tenant, session, turn)
        try:
            newest = await get_last_message_at_leader(self.connection, TOKENS_STREAM, subject)
        except (RequestNotSent, JsApiError):
            return None
        return next(iter(_decode_stamped(newest)), None) if newest else None

    async def measure_silence(self, tenant: str, session: str, turn: int) -> float | None:
        """See `TokenStream.measure_silence`."""
        subject = build_token_subject(tenant, session, turn)
        try:
            newest = await get_last_message_at_leader(self.connection, TOKENS_STREAM, subject)
            now = (await fetch_stream_info(self.connection, TOKENS_STREAM)).server_time
        except (RequestNotSent, JsApiError):
            return None
        return (now - datetime.fromisoformat(newest.time)).total_seconds() if newest else None

    @asynccontextmanager
    async def watch_turn(
        self, tenant: str, session: str, turn: int
    ) -> AsyncGenerator[AsyncGenerator[TokenEvent]]:
        """See `TokenStream.watch_turn`."""
        subject = build_token_subject(tenant, session, turn)
        async with open_live_subscription(self.connection, subject) as live:
            flow = _stream_token_events(self.connection, subject, live)
            try:
                yield flow
            finally:
                await flow.aclose()


async def _stream_token_events(
    connection: NatsConnection, subject: str, live: LiveSubscription
) -> AsyncGenerator[TokenEvent]:
    seen = 0
    message: Msg | None = None
    while True:
        for each in await _read_unseen(connection, subject, seen, message):
            seen = each.stream_sequence
            for event in _decode_token_event(each):
                yield event
        message = await live.wait_for_next(TOKEN_CHECK_SECONDS)


async def _read_unseen(
    connection: NatsConnection, subject: str, seen: int, message: Msg | None
) -> list[StoredMessage]:
    """Return the message if it is the next one, else all unseen token events that are stored."""
    if message is not None and message.headers is not None:
        if int(message.headers["Nats-Sequence"]) <= seen:
            return []
        if int(message.headers["Nats-Last-Sequence"]) <= seen:
            return [parse_stored_message(message)]
    try:
        return await _read_stored(connection, subject, seen)
    except Unavailable:
        return []


async def _read_stored(
    connection: NatsConnection, subject: str, behind: int
) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    with suppress(RequestNotSent):
        while page := await get_consecutive_messages(
            connection, TOKENS_STREAM, subject, behind + 1, TOKEN_PAGE_SIZE
        ):
            found += page
            behind = page[-1].stream_sequence
    return found


def _decode_stamped(found: StoredMessage) -> tuple[StampedTokenEvent, ...]:
    return tuple(
        StampedTokenEvent(event, datetime.fromisoformat(found.time))
        for event in _decode_token_event(found)
    )


def _decode_token_event(found: StoredMessage) -> tuple[TokenEvent, ...]:
    """Decode a token event; empty if this release does not know its kind."""
    try:
        return (TOKEN_EVENT.validate_json(found.payload),)
    except ValidationError:
        return ()
