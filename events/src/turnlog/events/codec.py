"""The codec: encodes events to stored bytes and decodes them; only it seals and opens content.

Writing is strict and reading is tolerant. Unknown fields are ignored, unknown types become
`UnknownEvent`, and only bytes that no release can have written raise an error. The events of a
sealed session are stored without their words, which are in a box beside the data; whoever reads
the log attaches the key to the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from pydantic import ConfigDict, ValidationError, create_model
from pydantic_core import PydanticSerializationError

from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import TYPE_START, ChainHead, Envelope, EventHeader, RecordedEvent
from turnlog.events.errors import Corrupt, KeyringMissing, Refused, TooLarge
from turnlog.events.model.alert_events import KnownAlertEvent
from turnlog.events.model.installation.read_events import RecordRead
from turnlog.events.model.knowledge_events import KnowledgeEvent
from turnlog.events.model.segment_events import SegmentEvent
from turnlog.events.registry import (
    ALERT_EVENT_TYPES,
    EVENT_TYPES,
    LIBRARY_EVENT_TYPES,
    UPCASTERS,
    AppendableEvent,
    KnownEvent,
    LibraryEvent,
    UnknownEvent,
    apply_upcasters,
)
from turnlog.events.seals.sealed_payload import SealedPayload, parse_sealed_header
from turnlog.events.subjects import SESSION_HISTORY, HistoryKind

MAX_EVENT_BYTES: Final = 1_000_000
"""Maximum bytes of one encoded event; the stream's limit leaves room for headers."""

MAX_BATCH_EVENTS: Final = 1_000
"""Maximum events of one atomic batch, set by the server."""


@dataclass(frozen=True, slots=True)
class CommandRef:
    """The command that led to an event: its idempotency key and the digest of its body."""

    key: str
    hash: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDraft:
    """An event that is decided but has no sequence in its session yet."""

    event: AppendableEvent
    id: str
    at: datetime
    source: str
    actor: str
    causation: str | None = None
    correlation: str | None = None
    command: CommandRef | None = None
    traceparent: str | None = None


SealEvent = Callable[[AppendableEvent, bytes], bytes]
"""Return the bytes to store of an encoded event."""


class TypedEnvelope(EventHeader):
    """An envelope whose data is an event."""

    model_config = ConfigDict(defer_build=True)  # Only envelopes of one type are built, when used.

    data: KnownEvent


@cache
def _build_form(kind: type[KnownEvent]) -> type[TypedEnvelope]:
    """Return the envelope of a class of events, which is read without plain values in between.

    To build those of all classes takes 25 to 30 ms, and most processes meet few of them.
    """
    form = create_model(f"{kind.__name__}Envelope", __base__=TypedEnvelope, data=(kind, ...))
    form.model_rebuild(force=True)
    return form


def build_envelopes() -> None:
    """Build the envelopes of all types of events, for a process that will meet most of them."""
    for kind in EVENT_TYPES.values():
        _build_form(kind)


def _find_form(wire_type: str) -> type[TypedEnvelope] | None:
    kind = None if wire_type in UPCASTERS else EVENT_TYPES.get(wire_type)
    return _build_form(kind) if kind else None


@dataclass(frozen=True, slots=True)
class BatchMessage:
    """Encoded bytes for the log; a retry sends exactly these bytes again."""

    subject: str
    sequence: int
    payload: bytes
    envelope: TypedEnvelope | None = None
    """What was encoded, if it is what `decode_event` makes of the bytes."""

    def record_at(self, stream_sequence: int) -> RecordedEvent:
        """Return the event as stored there; its writer does not decode it."""
        if self.envelope is None:
            return decode_event(self.payload, stream_sequence)
        return RecordedEvent(self.envelope, self.envelope.data, stream_sequence, self.payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatch:
    """Messages that are appended to a session after `after`, all or none."""

    tenant: str
    session: str
    """The session, or the family of a library."""
    after: ChainHead | None
    messages: tuple[BatchMessage, ...]
    subjects: str
    """The subject filter for all events of that session or family."""


def format_rfc3339(at: datetime) -> str:
    """Format an aware datetime in UTC with microseconds."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def encode_batch(
    tenant: str,
    session: str,
    after: ChainHead | None,
    drafts: Sequence[EventDraft],
    kind: HistoryKind = SESSION_HISTORY,
    seal: SealEvent | None = None,
) -> EventBatch:
    """Encode drafts as the batch after `after`; refuses ids and sizes the log cannot store.

    With `seal` the words of the events are sealed.
    """
    if not 1 <= len(drafts) <= MAX_BATCH_EVENTS:
        raise TooLarge("batch", len(drafts), MAX_BATCH_EVENTS)
    subjects = kind.build_filter(tenant, session)
    messages: list[BatchMessage] = []
    sequence = after.sequence if after else 0
    previous = after.hash if after else None
    for draft in drafts:
        sequence += 1
        place = after.stream_sequence if after and not messages else None
        header = _build_header(
            tenant=tenant,
            session=session,
            sequence=sequence,
            prevstreamseq=place,
            prevhash=previous,
            draft=draft,
        )
        payload = _encode_event(header, draft.event)
        if seal:
            payload = _check_event_size(seal(draft.event, payload))
        previous = compute_digest(payload)
        subject = kind.build_subject(tenant, session, draft.event.leaf)
        envelope = header if isinstance(header, TypedEnvelope) else None
        messages.append(BatchMessage(subject, sequence, payload, envelope))
    return EventBatch(
        tenant=tenant, session=session, after=after, messages=tuple(messages), subjects=subjects
    )


def _build_header(
    tenant: str,
    session: str,
    sequence: int,
    prevstreamseq: int | None,
    prevhash: Digest | None,
    draft: EventDraft,
) -> EventHeader:
    form = _find_form(draft.event.type)
    data: dict[str, Any] = {"data": draft.event} if form else {}
    return (form or EventHeader)(
        id=draft.id,
        source=draft.source,
        type=draft.event.type,
        subject=session,
        time=format_rfc3339(draft.at),
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
        **data,
    )


def _encode_event(header: EventHeader, event: AppendableEvent) -> bytes:
    try:
        start = header.model_dump_json(exclude_none=True, exclude={"data"})[:-1]
        payload = f'{start},"data":{event.model_dump_json(exclude_defaults=True)}}}'.encode()
    except PydanticSerializationError:
        # Texts are checked or repaired where they come in; this is for a way nobody thought of.
        detail = "a text of it has half of a surrogate pair, which cannot be stored"
        raise Refused("bad-text", detail, field=event.type, fix="remove the character") from None
    return _check_event_size(payload)


def _check_event_size(payload: bytes) -> bytes:
    if len(payload) > MAX_EVENT_BYTES:
        raise TooLarge("event", len(payload), MAX_EVENT_BYTES)
    return payload


_READERS: Final[dict[bytes, Callable[[bytes], TypedEnvelope]]] = {}
"""Readers by the type that stored bytes begin with, as far as they were used."""


def _find_reader(wire_type: bytes) -> Callable[[bytes], TypedEnvelope] | None:
    """Return the reader of a type; None for one that is read by way of plain values."""
    if reader := _READERS.get(wire_type):
        return reader
    form = _find_form(wire_type.decode(errors="replace"))
    if form is None:
        return None
    # Call the validator directly: `model_validate_json` first checks options not used here.
    return _READERS.setdefault(wire_type, form.__pydantic_validator__.validate_json)


def decode_event(stored: bytes, stream_sequence: int) -> RecordedEvent:
    """Decode stored bytes; raises `Corrupt` for bytes that no release can have written.

    Raises `KeyringMissing` for those of a sealed event without its key.
    """
    opened = _open_payload(stored, stream_sequence)
    start = TYPE_START.match(opened)
    reader = _find_reader(start[1]) if start else None
    try:
        if reader is None:
            return _decode_plain_values(stored, opened, stream_sequence)
        envelope: TypedEnvelope = reader(opened)
    except ValidationError as error:
        if parse_sealed_header(opened):
            raise KeyringMissing(f"the event at stream sequence {stream_sequence}") from None
        raise _describe_invalid(f"stream sequence {stream_sequence}", error) from None
    if envelope.sealedof is not None:
        raise KeyringMissing(f"the event at stream sequence {stream_sequence}")
    event = envelope.data
    if envelope.type != event.type:
        raise Corrupt(f"stream sequence {stream_sequence}", "it has two types")
    return RecordedEvent(envelope, event, stream_sequence, stored)


def _open_payload(stored: bytes, stream_sequence: int) -> bytes:
    if not isinstance(stored, SealedPayload):
        return stored
    try:
        return stored.open(EVENT_TYPES.get)
    except Corrupt as error:
        raise Corrupt(f"stream sequence {stream_sequence}", error.detail) from None


def _decode_plain_values(stored: bytes, opened: bytes, stream_sequence: int) -> RecordedEvent:
    envelope = Envelope.model_validate_json(opened)
    if envelope.sealedof is not None and parse_sealed_header(opened):
        raise KeyringMissing(f"the event at stream sequence {stream_sequence}")
    wire_type, data = apply_upcasters(envelope.type, envelope.data)
    kind = EVENT_TYPES.get(wire_type)
    event = kind.model_validate(data) if kind else UnknownEvent(wire_type, data)
    return RecordedEvent(envelope, event, stream_sequence, stored)


def decode_library_event(recorded: RecordedEvent) -> LibraryEvent | UnknownEvent:
    """Return a library event as its own class; raises `Corrupt` if its data is invalid.

    The session codec decodes all library events as `UnknownEvent`.
    """
    event = recorded.event
    kind = LIBRARY_EVENT_TYPES.get(recorded.envelope.type)
    if kind is None or not isinstance(event, UnknownEvent):
        return (
            event if isinstance(event, UnknownEvent) else UnknownEvent(recorded.envelope.type, {})
        )
    try:
        return kind.model_validate(event.data)
    except ValidationError as error:
        place = f"LIBRARY, stream sequence {recorded.stream_sequence}"
        raise _describe_invalid(place, error) from None


def decode_alert_event(recorded: RecordedEvent) -> KnownAlertEvent | UnknownEvent:
    """Do the same for an event of alerts."""
    event, kind = recorded.event, ALERT_EVENT_TYPES.get(recorded.envelope.type)
    if kind is None or not isinstance(event, UnknownEvent):
        return UnknownEvent(recorded.envelope.type, {})
    try:
        return kind.model_validate(event.data)
    except ValidationError as error:
        place = f"ALERTS, stream sequence {recorded.stream_sequence}"
        raise _describe_invalid(place, error) from None


def decode_read_event(recorded: RecordedEvent) -> RecordRead | UnknownEvent:
    """Do the same for an event of the log of reads."""
    event = recorded.event
    if recorded.envelope.type != RecordRead.type or not isinstance(event, UnknownEvent):
        return UnknownEvent(recorded.envelope.type, {})
    try:
        return RecordRead.model_validate(event.data)
    except ValidationError as error:
        place = f"READS, stream sequence {recorded.stream_sequence}"
        raise _describe_invalid(place, error) from None


def decode_segment_event(recorded: RecordedEvent) -> SegmentEvent | UnknownEvent:
    """Do the same for an event of segments; one of another family is an unknown event."""
    event = decode_library_event(recorded)
    if isinstance(event, SegmentEvent | UnknownEvent):
        return event
    return UnknownEvent(recorded.envelope.type, {})


def decode_knowledge_event(recorded: RecordedEvent) -> KnowledgeEvent | UnknownEvent:
    """Do the same for an event of knowledge; one of another family is an unknown event."""
    event = decode_library_event(recorded)
    if isinstance(event, KnowledgeEvent | UnknownEvent):
        return event
    return UnknownEvent(recorded.envelope.type, {})


def _describe_invalid(place: str, error: ValidationError) -> Corrupt:
    first = error.errors(include_input=False, include_url=False)[0]
    return Corrupt(place, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
