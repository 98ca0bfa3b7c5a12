"""The codec: encodes events to stored bytes and decodes them; only it seals and opens content.

Writing is strict and reading is tolerant. Unknown fields are ignored, unknown types become
`UnknownEvent`, and only bytes that no release can have written raise an error. Sealing is not
implemented yet; all content is stored as plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from turnlog.events.content import Digest, digest_of
from turnlog.events.envelope import Envelope, Head, Recorded
from turnlog.events.errors import Corrupt, TooLarge
from turnlog.events.ids import library_subject, session_subject
from turnlog.events.kinds import KINDS, Event, KnownEvent, Unknown
from turnlog.events.upcast import upcast

if TYPE_CHECKING:
    from turnlog.events.library import LibraryEvent

MAX_EVENT_BYTES: Final = 1_000_000
"""Maximum bytes of one encoded event; the stream's limit leaves room for headers."""
MAX_BATCH: Final = 1_000
"""Maximum events of one atomic batch, set by the server."""


@dataclass(frozen=True, slots=True)
class Command:
    """The command that led to an event: its idempotency key and the digest of its body."""

    key: str
    hash: Digest


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is decided but has no sequence in its session yet."""

    event: KnownEvent | LibraryEvent
    id: str
    at: datetime
    source: str
    actor: str
    causation: str | None = None
    correlation: str | None = None
    command: Command | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """Encoded bytes for the log; a retry sends exactly these bytes again."""

    subject: str
    sequence: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that are appended to a session after `after`, all or none."""

    tenant: str
    session: str
    """The session, or the family of a library."""
    after: Head | None
    messages: tuple[Message, ...]
    subjects: str
    """The subject filter for all events of that session or family."""


def rfc3339(at: datetime) -> str:
    """Format an aware datetime in UTC with microseconds."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def write(tenant: str, session: str, after: Head | None, drafts: Sequence[Draft]) -> Batch:
    """Encode drafts as the batch after `after`; refuses ids and sizes the log cannot store."""
    return _written(tenant, session, after, drafts, partial(session_subject, tenant, session))


def write_library(tenant: str, family: str, after: Head | None, drafts: Sequence[Draft]) -> Batch:
    """Encode drafts as a batch for a family of a tenant's library."""
    return _written(tenant, family, after, drafts, partial(library_subject, tenant, family))


def _written(
    tenant: str,
    session: str,
    after: Head | None,
    drafts: Sequence[Draft],
    subject: Callable[[str], str],
) -> Batch:
    if not 1 <= len(drafts) <= MAX_BATCH:
        raise TooLarge("batch", len(drafts), MAX_BATCH)
    subjects = subject(">")
    messages: list[Message] = []
    sequence = after.sequence if after else 0
    previous = after.hash if after else None
    for draft in drafts:
        sequence += 1
        lies = after.stream_sequence if after and not messages else None
        payload = _encoded(tenant, session, sequence, lies, previous, draft)
        previous = digest_of(payload)
        messages.append(Message(subject(draft.event.leaf), sequence, payload))
    return Batch(tenant, session, after, tuple(messages), subjects)


def _encoded(
    tenant: str,
    session: str,
    sequence: int,
    prevstreamseq: int | None,
    prevhash: Digest | None,
    draft: Draft,
) -> bytes:
    envelope = Envelope(
        id=draft.id,
        source=draft.source,
        type=draft.event.type,
        subject=session,
        time=rfc3339(draft.at),
        tenant=tenant,
        sequence=sequence,
        prevstreamseq=prevstreamseq,
        prevhash=prevhash,
        actor=draft.actor,
        causationid=draft.causation,
        correlationid=draft.correlation,
        commandkey=draft.command.key if draft.command else None,
        commandhash=draft.command.hash if draft.command else None,
        traceparent=draft.traceparent,
        data=draft.event.model_dump(mode="json", exclude_defaults=True),
    )
    payload = envelope.model_dump_json(exclude_none=True).encode()
    if len(payload) > MAX_EVENT_BYTES:
        raise TooLarge("event", len(payload), MAX_EVENT_BYTES)
    return payload


def read(stored: bytes, stream_sequence: int) -> Recorded:
    """Decode stored bytes; raises `Corrupt` for bytes that no release can have written."""
    try:
        # Call the validators directly: `model_validate` first checks options that are not used
        # here.
        envelope = Envelope.__pydantic_validator__.validate_json(stored)
        event = _event(envelope)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise Corrupt(f"stream sequence {stream_sequence}", f"{where}: {first['msg']}") from None
    return Recorded(envelope, event, stream_sequence, stored)


def _event(envelope: Envelope) -> Event:
    wire_type, data = upcast(envelope.type, envelope.data)
    kind = KINDS.get(wire_type)
    if kind is None:
        return Unknown(wire_type, data)
    event: KnownEvent = kind.__pydantic_validator__.validate_python(data)
    return event
