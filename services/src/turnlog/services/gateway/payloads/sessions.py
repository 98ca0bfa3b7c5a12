"""What is answered about sessions: that one is open, how it stands, which there are."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.services.gateway.payloads.closed import Answer


class Opened(Answer):
    """A session is open."""

    session: str
    """Its id."""
    blueprint: str
    """The blueprint's name."""
    digest: Digest
    """Digest of the blueprint, to which the session is pinned."""
    sequence: int
    """Of the event that opened it."""


class OriginView(Answer):
    """Where a session comes from."""

    kind: Literal["parent", "fork"]
    """A coordinator's child, or a fork."""
    session: str
    """The session it came from."""
    sequence: int
    """That session's sequence at which it came away."""


class Forked(Answer):
    """A fork is open, and has all events of its origin."""

    session: str
    """Its id."""
    origin: OriginView
    """Where it comes from."""
    blueprint: str
    """The blueprint's name."""
    digest: Digest
    """Digest of the blueprint, to which the session is pinned."""
    sequence: int
    """Its last event."""


class OpenTurnView(Answer):
    """The turn that is being answered."""

    turn: int
    """Its number."""
    attempt: int
    """The latest attempt; 0 before a worker took it."""
    running: bool
    """Whether that attempt has not ended."""
    released_at: str
    """When it became open."""


class ChoiceView(Answer):
    """A choice that was made."""

    phase: str
    """The phase that offered it."""
    choice: str
    """The choice."""
    label: str | None
    """What prompts say of it."""


class SessionView(Answer):
    """A session as its own log tells it."""

    session: str
    """Its id."""
    sequence: int
    """Its last event."""
    blueprint: str
    """The blueprint's name."""
    version: int
    """The blueprint's version."""
    digest: Digest
    """Digest of the blueprint."""
    profile: str
    """The profile it runs by."""
    model: str | None = None
    """The model that was asked for in place of the profile's own."""
    attributes: dict[str, JsonValue]
    """What was given when it opened, defaults included."""
    closed: bool
    """Whether nothing may be submitted any more."""
    turns: int
    """Turns so far, of whatever fate."""
    completed: int
    """Turns that got a reply."""
    open: OpenTurnView | None
    """The turn that is being answered."""
    waiting: tuple[int, ...]
    """Turns behind it."""
    phase: str | None = None
    """Where it stands in its state machine."""
    exchanges: int = 0
    """Turns completed in this phase."""
    choices: tuple[ChoiceView, ...] = ()
    """Choices made so far."""
    warnings: tuple[str, ...] = ()
    """What was wrong with the files it was opened by, and what stands in for them."""
    origin: OriginView | None = None
    """The session it came from."""


class ListedSession(Answer):
    """A session as a list shows it."""

    session: str
    """Its id."""
    sequence: int
    """Its last event, as far as the read models have come."""
    title: str | None
    """The first turn's text, shortened to a line."""
    blueprint: str
    """The blueprint's name."""
    version: int
    """The blueprint's version."""
    digest: Digest
    """Digest of the blueprint."""
    profile: str
    """The profile it runs by."""
    attributes: dict[str, JsonValue]
    """What was given when it opened."""
    turns: int
    """Turns so far."""
    redacted: bool
    """Whether a reply was withheld."""
    opened_at: str
    """When it opened."""
    last_at: str
    """When something last happened in it."""
    closed_at: str | None
    """When it closed."""
    origin: OriginView | None = None
    """The session it came from."""


class SessionPage(Answer):
    """Some sessions, newest first."""

    sessions: tuple[ListedSession, ...]
    """The sessions."""
    next: str | None
    """Give this back as `before` for the next page; null on the last."""
