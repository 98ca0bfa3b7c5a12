"""What commands read of the recorded events: those so far, and new ones as they arrive.

Events are decoded from their stored form.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from turnlog.client import ClientOperation
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.events import codec
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.services.cli.client.service_client import ServiceClient


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


async def read_events(service: ServiceClient, query: EventQuery) -> AsyncGenerator[RecordedEvent]:
    """Yield the events recorded so far, in order."""
    operation = _build_event_read(query, "application/x-ndjson")
    async with aclosing(service.stream_lines(operation)) as lines:
        async for line in lines:
            _require_event_line(line)
            yield codec.decode_event(line.encode(), 0)


async def watch_events(
    service: ServiceClient, query: EventQuery
) -> AsyncGenerator[RecordedEvent | UnreadableLine]:
    """Yield the recorded events, then new ones; undecodable entries are yielded as well."""
    operation = _build_event_read(query, "text/event-stream")
    async with aclosing(service.stream_messages(operation)) as messages:
        async for message in messages:
            if message.name == "unreadable":
                yield UnreadableLine(message.data)
            else:
                yield codec.decode_event(message.data.encode(), 0)


def _build_event_read(query: EventQuery, content_type: str) -> ClientOperation[object]:
    path = api_paths.EVENTS
    if query.session:
        path = format_path(api_paths.SESSION_EVENTS, session=query.session)
    params = {"after": str(query.after)} | ({"types": query.types} if query.types else {})
    params |= {"stored": "true"} if query.stored else {}
    headers = {"Accept": content_type}
    return ClientOperation("GET", path, object, query=params, headers=headers)


_PROBLEM_LINE: Final = '{"type":"urn:turnlog:problem:'
"""How the last line begins where lines break off; an event begins with its `specversion`."""


def _require_event_line(line: str) -> None:
    """Raise `Corrupt` for a line that says why no more follow."""
    if line.startswith(_PROBLEM_LINE):
        raise Corrupt("the record", json.loads(line)["detail"])
