"""The token stream: it is in server memory and may be lost at any time.

Publishing does not wait and fails silently, so that problems of readers cannot disturb a reply.
Stored tokens can be read back as long as the server runs; a reader that misses tokens uses the
recorded reply.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from nats import errors
from pydantic import ValidationError

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.direct_get import (
    StoredMessage,
    get_consecutive_messages,
    get_last_message,
)
from turnlog.events.jetstream.js_api import JsApiError, PublishAck, fetch_stream_info, request_json
from turnlog.events.jetstream.live_feed import CHECK_SECONDS, LiveFeed, LiveQueue
from turnlog.events.jetstream.nats_connection import NatsConnection, RequestNotSent
from turnlog.events.store.ports import PublishedToken, StampedTokenEvent, TurnTokenEvent
from turnlog.events.subjects import (
    ALL_TOKEN_SUBJECTS,
    TOKENS_STREAM,
    build_token_filter,
    build_token_subject,
)
from turnlog.events.tokens import TOKEN_EVENT, TokenEvent

TOKEN_PAGE_SIZE: Final = 1_000
"""Token events read back in one batch."""

_TOKEN_SUBJECT_WORDS: Final = 4

_TENANT_SUBJECT_WORDS: Final = 2


def decode_token_event(stored: bytes, stream_sequence: int) -> tuple[TokenEvent, ...]:
    """Decode a token event; empty if this release does not know its kind."""
    del stream_sequence
    try:
        return (TOKEN_EVENT.validate_json(stored),)
    except ValidationError:
        return ()


def build_token_feed(subjects: str = ALL_TOKEN_SUBJECTS) -> LiveFeed[tuple[TokenEvent, ...]]:
    """Return a feed of token events, whose watchers watch one turn each, or a tenant."""
    return LiveFeed(
        subjects=subjects,
        key_words=_TOKEN_SUBJECT_WORDS,
        decode=decode_token_event,
        wide_key_words=_TENANT_SUBJECT_WORDS,
    )


@dataclass(frozen=True, slots=True)
class JetStreamTokenStream:
    """Token events of all turns."""

    connection: NatsConnection
    feed: LiveFeed[tuple[TokenEvent, ...]] = field(default_factory=build_token_feed)
    """The standing subscription of this process."""

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
            newest = await get_last_message(self.connection, TOKENS_STREAM, subject, leader=True)
        except (RequestNotSent, JsApiError):
            return None
        return next(iter(_decode_stamped(newest)), None) if newest else None

    async def measure_silence(self, tenant: str, session: str, turn: int) -> float | None:
        """See `TokenStream.measure_silence`."""
        subject = build_token_subject(tenant, session, turn)
        try:
            newest = await get_last_message(self.connection, TOKENS_STREAM, subject, leader=True)
            now = (await fetch_stream_info(self.connection, TOKENS_STREAM)).server_time
        except (RequestNotSent, JsApiError):
            return None
        return (now - datetime.fromisoformat(newest.time)).total_seconds() if newest else None

    @asynccontextmanager
    async def open_turn_watch(
        self, tenant: str, session: str, turn: int, wake: asyncio.Event, *, is_new: bool = False
    ) -> AsyncGenerator[JetStreamTurnWatch]:
        """See `TokenStream.open_turn_watch`."""
        subject = build_token_subject(tenant, session, turn)
        was_open = await self.feed.open_on(self.connection)
        with self.feed.open_queue(subject, wake) as queue:
            queue.has_missed = not (was_open and is_new)
            yield JetStreamTurnWatch(
                connection=self.connection, subject=subject, feed=self.feed, queue=queue
            )

    @asynccontextmanager
    async def open_tenant_watch(
        self, tenant: str, wake: asyncio.Event
    ) -> AsyncGenerator[JetStreamTenantWatch]:
        """See `TokenStream.open_tenant_watch`."""
        await self.feed.open_on(self.connection)
        key = build_token_filter(tenant, None).removesuffix(".>")
        with self.feed.open_queue(key, wake, ()) as queue:
            yield JetStreamTenantWatch(self.feed, queue)


@dataclass
class JetStreamTenantWatch:
    """The token events of a tenant's turns that their reader has not taken yet."""

    feed: LiveFeed[tuple[TokenEvent, ...]]
    queue: LiveQueue[tuple[TokenEvent, ...]]
    fresh: deque[PublishedToken] = field(default_factory=deque[PublishedToken])

    async def take_next(self) -> PublishedToken | None:
        """See `Watch.take_next`; what was lost is not read again."""
        while not self.fresh:
            message = self.queue.take_message()
            if message is None:
                return None
            *_, session, turn = message.key.split(".")
            if turn.isdigit():
                events = self.feed.decode_message(message)
                self.fresh += [(session, TurnTokenEvent(int(turn), event)) for event in events]
        return self.fresh.popleft()


@dataclass(kw_only=True)
class JetStreamTurnWatch:
    """The token events of a turn that their reader has not taken yet."""

    connection: NatsConnection
    subject: str
    feed: LiveFeed[tuple[TokenEvent, ...]]
    queue: LiveQueue[tuple[TokenEvent, ...]]
    seen: int = 0
    """Stream sequence of the last message taken."""
    fresh: deque[TokenEvent] = field(default_factory=deque["TokenEvent"])
    """Token events that are not taken yet."""
    checked_at: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    async def take_next(self) -> TokenEvent | None:
        """See `Watch.take_next`; waits only where it reads what is stored."""
        while not self.fresh:
            message = None if self.queue.has_missed else self.queue.take_message()
            if message is None:
                if not self._is_read_due():
                    return None
                await self._read_stored()
                if not self.fresh:
                    return None
            elif message.previous > self.seen:
                self.queue.has_missed = True
            elif message.stream_sequence > self.seen:
                self.seen = message.stream_sequence
                self.fresh.extend(self.feed.decode_message(message))
        self.checked_at = asyncio.get_running_loop().time()
        return self.fresh.popleft()

    def _is_read_due(self) -> bool:
        since = asyncio.get_running_loop().time() - self.checked_at
        return self.queue.has_missed or since >= CHECK_SECONDS

    async def _read_stored(self) -> None:
        self.queue.has_missed = False
        self.checked_at = asyncio.get_running_loop().time()
        with suppress(Unavailable):
            for each in await _read_stored(self.connection, self.subject, self.seen):
                self.seen = each.stream_sequence
                self.fresh.extend(decode_token_event(each.payload, each.stream_sequence))


async def _read_stored(
    connection: NatsConnection, subject: str, behind: int
) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    with suppress(RequestNotSent):
        while page := await get_consecutive_messages(
            connection=connection,
            stream=TOKENS_STREAM,
            subjects=subject,
            start=behind + 1,
            count=TOKEN_PAGE_SIZE,
        ):
            found += page
            behind = page[-1].stream_sequence
    return found


def _decode_stamped(found: StoredMessage) -> tuple[StampedTokenEvent, ...]:
    return tuple(
        StampedTokenEvent(event, datetime.fromisoformat(found.time))
        for event in decode_token_event(found.payload, found.stream_sequence)
    )
