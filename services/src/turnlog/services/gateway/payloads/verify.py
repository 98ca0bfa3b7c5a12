"""What is answered about a session's record: whether it is whole and unaltered."""

from __future__ import annotations

from turnlog.events.content import Digest
from turnlog.services.gateway.payloads.closed import Answer


class FindingView(Answer):
    """Something that is wrong with a session's record."""

    check: str
    """Which check found it."""
    sequence: int | None
    """The event it was found at."""
    detail: str
    """What is wrong."""


class VerifyView(Answer):
    """What checking a session's record came to."""

    session: str
    """The session."""
    sequence: int
    """Its last event."""
    head: Digest | None
    """Digest of that event's stored bytes; whoever notes it can prove what came before."""
    verified: bool
    """Whether nothing is wrong."""
    events: int
    """Events that were read."""
    prompts: int
    """Prompts that read back as recorded."""
    findings: tuple[FindingView, ...]
    """Everything that is wrong, first things first."""
