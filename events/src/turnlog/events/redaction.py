"""Events of the redaction family: what was taken back."""

from __future__ import annotations

from typing import ClassVar

from turnlog.events.content import Content, Digest
from turnlog.events.fact import Fact


class ReplyRedacted(Fact):
    """A reply is withheld; its replacement stands wherever the reply stood."""

    type: ClassVar[str] = "turnlog.reply-redacted.v1"
    leaf: ClassVar[str] = "redaction"

    turn: int
    """The turn whose reply it was."""
    reason: str
    """Why, for people."""
    rule: str
    """Which rule did it; `operator` for a person."""
    replacement: Content
    """What stands in its place."""
    withheld: Digest | None = None
    """Blob of a text that was never recorded as a reply; the audit role alone reads it."""
