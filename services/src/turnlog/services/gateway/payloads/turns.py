"""What is answered about turns and commands: what was recorded, and what came of it."""

from __future__ import annotations

from turnlog.events.content import Content, Plain
from turnlog.events.turn import Finish
from turnlog.projections.history import Status
from turnlog.services.gateway.payloads.closed import Answer


class Submitted(Answer):
    """A turn is on the log."""

    session: str
    """The session."""
    turn: int
    """Its number within the session."""
    sequence: int
    """Of the event that submitted it."""
    stream: str
    """Where its reply can be watched."""
    events: str
    """Where everything that happens to it can be read."""


class Settled(Submitted):
    """A turn is on the log, and what came of it."""

    settled: int
    """Of the event that settled it."""
    status: Status
    """What came of it."""
    reply: str | None
    """The reply, or the replacement of a redacted one."""
    finish: Finish | None
    """Why the model stopped; `length` marks a reply it did not get to end."""
    redacted: bool
    """Whether the reply was withheld."""
    reason: str | None
    """Why it failed, was cancelled or was redacted."""
    fallback: str | None = None
    """Why the reply is no model's; null where it is one's."""


class Acted(Answer):
    """A command was carried out, or had nothing left to do."""

    session: str
    """The session."""
    turn: int | None
    """The turn it was about, if it was about one."""
    sequence: int
    """Of its last event; of the session, where it had nothing left to do."""


class TurnView(Answer):
    """A turn as people read it."""

    turn: int
    """Its number."""
    status: Status
    """What became of it."""
    text: str | None
    """What was said."""
    reply: str | None
    """The reply, or the replacement of a redacted one."""
    finish: Finish | None
    """Why the model stopped."""
    call: str | None
    """The call whose text the reply is."""
    excluded: bool
    """Whether it is left out of windows."""
    redacted: bool
    """Whether the reply was withheld."""
    reason: str | None
    """Why it failed, was cancelled or was redacted."""
    sequence: int
    """Of the event that submitted it."""
    submitted_at: str
    """When."""
    settled_at: str | None
    """When it was settled."""
    remembered: bool = True
    """Whether later turns may be told of it."""
    fallback: str | None = None
    """Why the reply is no model's; null where it is one's."""


class HistoryView(Answer):
    """All turns of a session."""

    session: str
    """The session."""
    sequence: int
    """Up to which event."""
    turns: tuple[TurnView, ...]
    """In order."""


def plain(content: Content | None) -> str | None:
    """Give a text that may be shown; none when it is sealed, erased or was never there."""
    return content.text if isinstance(content, Plain) else None
