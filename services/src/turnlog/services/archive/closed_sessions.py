"""Which sessions can be moved into the archive: those that have been closed for long enough."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from turnlog.events.archive.session_files import is_line_safe
from turnlog.events.codec import format_rfc3339
from turnlog.events.envelope import EventHeader
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.jetstream.stream_reader import stream_raw_events
from turnlog.events.model.session_events import SessionClosed
from turnlog.events.store.ports import RawEvent
from turnlog.events.stray_messages import is_stray, parse_history_key
from turnlog.events.subjects import SESSION_HISTORY, SESSIONS_STREAM

SessionKey = tuple[str, str]
"""A tenant and one of its sessions."""


@dataclass(slots=True, kw_only=True)
class _SessionFacts:
    live: int = 0
    """Events that are in the stream, and not in the archive already."""
    size: int = 0
    """Bytes of those."""
    last_time: str = ""
    is_closed: bool = False
    has_strays: bool = False

    def add_event(self, raw: RawEvent, *, is_archived: bool) -> None:
        """Add a message of the session."""
        header = None if is_stray(raw.subject, raw.stored) else parse_header(raw.stored)
        if header is None or not is_line_safe(raw):
            self.has_strays = True
            return
        self.last_time = header.time
        self.is_closed |= header.type == SessionClosed.type
        if not is_archived:
            self.live += 1
            self.size += len(raw.stored)

    def is_due(self, before: datetime) -> bool:
        """Return whether the session is closed, has events to move, and none after a time."""
        return self.is_closed and self.live > 0 and self.last_time < format_rfc3339(before)


def parse_header(stored: bytes) -> EventHeader | None:
    """Return the header of an event, sealed or not; None for what is no event."""
    try:
        return EventHeader.model_validate_json(stored)
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlan:
    """What a run would move."""

    sessions: Sequence[SessionKey]
    events: int
    size: int
    """Bytes of the events."""
    with_strays: Sequence[SessionKey] = ()
    """Closed sessions that stay, since messages under their subjects are no events of theirs."""


async def find_closed_sessions(
    connection: NatsConnection, before: datetime, tenant: str
) -> ArchivePlan:
    """Return the sessions of a tenant that are closed, with no event after a time.

    The whole stream is read once. A session of which everything is archived is none of them.
    """
    archive, found = connection.archive, dict[SessionKey, _SessionFacts]()
    everything = SESSION_HISTORY.build_filter()
    async with aclosing(
        stream_raw_events(connection, SESSIONS_STREAM, everything, 0, live=False)
    ) as bulks:
        async for bulk in bulks:
            for raw in bulk:
                facts = found.setdefault(parse_history_key(raw.subject), _SessionFacts())
                is_archived = archive is not None and archive.has_message(raw.stream_sequence)
                facts.add_event(raw, is_archived=is_archived)
    chosen = {
        key: facts for key, facts in found.items() if key[0] == tenant and facts.is_due(before)
    }
    whole = {key: facts for key, facts in chosen.items() if not facts.has_strays}
    return ArchivePlan(
        sessions=sorted(whole),
        events=sum(each.live for each in whole.values()),
        size=sum(each.size for each in whole.values()),
        with_strays=sorted(chosen.keys() - whole.keys()),
    )
