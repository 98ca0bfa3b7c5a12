"""The envelope: one CloudEvents 1.0 object in JSON, the same on the wire, on disk and in exports.

It holds what every event has in common: who, when, where in the session, and the digest of the
event before it. The chain runs over stored bytes, so no canonical form has to be agreed upon.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from turnlog.events.content import Digest, digest_of

if TYPE_CHECKING:
    from turnlog.events.kinds import Event

END: Final = 2**64
"""Where every sequence ends: no log can hold as many events."""


class Envelope(BaseModel):
    """What surrounds an event's own data; names follow CloudEvents, hence no underscores."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    specversion: Literal["1.0"] = "1.0"
    """The CloudEvents version."""
    id: str
    """A UUID of the event's own."""
    source: str
    """The process that wrote it, for example `/turnlog/gateway`."""
    type: str
    """`turnlog.<name>.v<version>`."""
    subject: str
    """The session."""
    time: str
    """When it was decided, RFC 3339 in UTC, by the writer's clock."""
    tenant: str
    """Whose session it is."""
    sequence: int = Field(lt=END)
    """The session's own 1..n, without a gap."""
    prevstreamseq: int | None = None
    """Where the session's previous event lies in the stream; absent for the first event, and
    within a batch, whose events lie side by side."""
    prevhash: Digest | None = None
    """Digest of the stored bytes of the session's previous event; absent for the first."""
    actor: str
    """On whose behalf."""
    causationid: str | None = None
    """Id of the event that led to this one."""
    correlationid: str | None = None
    """What ties the events of one undertaking together."""
    commandkey: str | None = None
    """The idempotency key of the command that led to it."""
    commandhash: Digest | None = None
    """Digest of that command's body."""
    traceparent: str | None = None
    """W3C trace context."""
    copyof: str | None = None
    """Id of the event it repeats, in the session that this one was forked from."""
    data: dict[str, JsonValue]
    """The event itself."""


@dataclass(frozen=True, slots=True)
class Head:
    """A place in a session's history: the last event somebody has seen."""

    sequence: int
    """The session's sequence."""
    stream_sequence: int
    """Where that event lies in the stream."""
    hash: Digest
    """Digest of its stored bytes."""


# Without slots, since what its bytes digest to is asked by the chain and by the fold
@dataclass(frozen=True)
class Recorded:
    """An event as the log holds it."""

    envelope: Envelope
    event: Event
    stream_sequence: int
    stored: bytes
    """Exactly the bytes on the log."""

    @property
    def sequence(self) -> int:
        """The session's own sequence."""
        return self.envelope.sequence

    @property
    def session(self) -> str:
        """The session."""
        return self.envelope.subject

    @property
    def tenant(self) -> str:
        """Whose session it is."""
        return self.envelope.tenant

    @cached_property
    def head(self) -> Head:
        """Its place in the session."""
        return Head(self.sequence, self.stream_sequence, digest_of(self.stored))
