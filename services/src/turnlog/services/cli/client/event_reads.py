"""What commands read of the recorded events: those so far, and new ones as they arrive.

Events are decoded from their stored form.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import httpx

from turnlog.events import codec
from turnlog.events.envelope import RecordedEvent
from turnlog.services.cli.client.http_responses import (
    require_event_line,
    stream_lines,
    stream_messages,
)
from turnlog.services.cli.client.service_reader import ServiceReader


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Which events to read."""

    session: str | None = None
    """Only this session; all if None."""
    after: int = 0
    """Only events after this sequence of the session, or of the stream when all are read."""
    types: str | None = None
    """Event names separated by commas; all if None."""
    stored: bool = False
    """Whether to read the stored bytes of withheld texts too."""


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A log entry that cannot be decoded."""

    json_text: str
    """JSON with its position and the reason."""


async def read_events(reader: ServiceReader, query: EventQuery) -> AsyncGenerator[RecordedEvent]:
    """Yield the events recorded so far, in order."""
    request = _build_event_request(reader.client, query, "application/x-ndjson")
    async with aclosing(stream_lines(reader.client, request)) as lines:
        async for line in lines:
            yield codec.decode_event(require_event_line(line).encode(), 0)


async def watch_events(
    reader: ServiceReader, query: EventQuery
) -> AsyncGenerator[RecordedEvent | UnreadableLine]:
    """Yield the recorded events, then new ones; undecodable entries are yielded as well."""
    request = _build_event_request(reader.client, query, "text/event-stream")
    async with aclosing(stream_messages(reader.client, request)) as messages:
        async for message in messages:
            if message.name == "unreadable":
                yield UnreadableLine(message.data)
            else:
                yield codec.decode_event(message.data.encode(), 0)


def _build_event_request(
    client: httpx.AsyncClient, query: EventQuery, content_type: str
) -> httpx.Request:
    session = f"sessions/{query.session}/" if query.session else ""
    params = {"after": query.after} | ({"types": query.types} if query.types else {})
    params |= {"stored": "true"} if query.stored else {}
    headers = {"Accept": content_type}
    path = f"/v1/{session}events"
    return client.build_request("GET", path, params=params, headers=headers)
