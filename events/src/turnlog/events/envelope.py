"""The envelope of an event: one CloudEvents 1.0 object in JSON, and its place in the hash chain.

The same bytes are on the wire, on disk and in exports. The envelope has what all events have in
common: who, when, the place in the session, and the digest of the event before it. The chain is
computed over stored bytes, so no canonical JSON is needed; its rule is in `chain_link`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from turnlog.events.content import Digest, compute_digest
from turnlog.events.seals.sealed_payload import SealedPayload

TYPE_START: Final = re.compile(
    rb'\{"specversion":"1\.0","id":"[^"\\]*","source":"[^"\\]*","type":"([^"\\]*)"'
)
"""The beginning of the same, with the event's type."""


if TYPE_CHECKING:
    from turnlog.events.registry import Event


SEQUENCE_LIMIT: Final = 2**64
"""Upper bound (exclusive) of every sequence number."""


class EventHeader(BaseModel):
    """Metadata of an event; field names follow CloudEvents, hence no underscores."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    specversion: Literal["1.0"] = "1.0"
    """The CloudEvents version."""
    id: str
    """A UUID of this event."""
    source: str
    """The process that wrote it, for example `/turnlog/gateway`."""
    type: str
    """`turnlog.<name>.v<version>`."""
    subject: str
    """The session."""
    time: str
    """When the event was decided: RFC 3339 in UTC, by the writer's clock."""
    tenant: str
    """The tenant that owns the session."""
    sequence: int = Field(lt=SEQUENCE_LIMIT)
    """Position in the session: 1..n without a gap."""
    prevstreamseq: int | None = None
    """Stream sequence of the session's previous event; absent for the first event, and within a
    batch, whose events are adjacent.
    """
    prevhash: Digest | None = None
    """Digest of the stored bytes of the session's previous event; absent for the first event."""
    actor: str
    """On whose behalf the event was written."""
    causationid: str | None = None
    """Id of the event that caused this one."""
    correlationid: str | None = None
    """Groups the events of one operation."""
    commandkey: str | None = None
    """Idempotency key of the command that produced the event."""
    commandhash: Digest | None = None
    """Digest of that command's body."""
    traceparent: str | None = None
    """W3C trace context."""
    copyof: str | None = None
    """Id of the original event, in the session that this one was forked from."""
    sealedof: str | None = None
    """The keys under which the words of the event are sealed; absent unless they are."""
    sealed: str | None = None
    """The words of the event, encrypted; absent unless they are."""


class Envelope(EventHeader):
    """An event as it is stored: its metadata and, last, its data."""

    data: dict[str, JsonValue]
    """The event's own fields."""


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The last event of a session that a reader has seen."""

    sequence: int
    """The sequence in the session."""
    stream_sequence: int
    """The sequence of that event in the stream."""
    hash: Digest
    """Digest of its stored bytes."""


# Without slots: `head` is cached, because both the chain check and the fold need the digest.
@dataclass(frozen=True)
class RecordedEvent:
    """An event as stored on the log."""

    envelope: EventHeader
    event: Event
    stream_sequence: int
    stored: bytes
    """The exact bytes on the log."""

    @property
    def opened_bytes(self) -> bytes:
        """The event as readers get it: as it is stored, or as it would be if it were not sealed."""
        stored = self.stored
        return stored.opened or stored if isinstance(stored, SealedPayload) else stored

    @property
    def sequence(self) -> int:
        """The sequence in the session."""
        return self.envelope.sequence

    @property
    def session(self) -> str:
        """The session id."""
        return self.envelope.subject

    @property
    def tenant(self) -> str:
        """The tenant that owns the session."""
        return self.envelope.tenant

    def load_data(self) -> dict[str, JsonValue]:
        """Return the event's fields as they are opened, those of a later release included."""
        return Envelope.model_validate_json(self.opened_bytes).data

    @cached_property
    def head(self) -> ChainHead:
        """The chain head that this event forms."""
        return ChainHead(self.sequence, self.stream_sequence, compute_digest(self.stored))
