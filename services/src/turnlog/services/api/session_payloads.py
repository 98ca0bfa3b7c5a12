"""The responses about sessions: opening, state, forks and the list."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.services.api.payload_models import ResponseModel


class OpenedSession(ResponseModel):
    """An opened session."""

    session: str
    """The session id."""
    blueprint: str
    """The blueprint's name."""
    digest: Digest
    """The digest of the blueprint that the session is pinned to."""
    sequence: int
    """The sequence of the event that opened it."""


class OriginView(ResponseModel):
    """The origin of a session."""

    kind: Literal["parent", "fork"]
    """Whether it is a coordinator's child or a fork."""
    session: str
    """The id of the origin."""
    sequence: int
    """The origin's sequence at which it was created."""


class ForkedSession(ResponseModel):
    """A fork, which has all events of its origin up to a sequence."""

    session: str
    """The session id."""
    origin: OriginView
    """The origin."""
    blueprint: str
    """The blueprint's name."""
    digest: Digest
    """The digest of the blueprint that the session is pinned to."""
    sequence: int
    """The last sequence."""


class OpenTurnView(ResponseModel):
    """The turn that is being answered."""

    turn: int
    """The turn number."""
    attempt: int
    """The latest attempt; 0 before a worker claims the turn."""
    running: bool
    """Whether that attempt is still running."""
    released_at: str
    """When the turn became open."""


class ChoiceView(ResponseModel):
    """A recorded choice."""

    phase: str
    """The phase that offered it."""
    choice: str
    """The choice."""
    label: str | None
    """The text of the choice in prompts."""


class SessionView(ResponseModel):
    """The state of a session, folded from its own log."""

    session: str
    """The session id."""
    sequence: int
    """The last sequence."""
    blueprint: str
    """The blueprint's name."""
    version: int
    """The blueprint's version."""
    digest: Digest
    """The digest of the blueprint."""
    profile: str
    """The current profile."""
    model: str | None = None
    """The requested model that overrides the profile's own."""
    attributes: dict[str, JsonValue]
    """The attributes of the session, defaults included."""
    closed: bool
    """Whether the session accepts no more turns."""
    turns: int
    """The number of submitted turns."""
    completed: int
    """The number of turns with a reply."""
    open: OpenTurnView | None
    """The turn that is being answered."""
    waiting: tuple[int, ...]
    """The queued turns."""
    phase: str | None = None
    """The current phase."""
    exchanges: int = 0
    """The number of turns completed in this phase."""
    choices: tuple[ChoiceView, ...] = ()
    """The choices so far."""
    warnings: tuple[str, ...] = ()
    """The faults of the files at opening, and the defaults used instead."""
    origin: OriginView | None = None
    """The session it came from."""


class ListedSession(ResponseModel):
    """A session in a list."""

    session: str
    """The session id."""
    sequence: int
    """The last sequence that the read models contain."""
    title: str | None
    """The first turn's text, shortened to one line."""
    blueprint: str
    """The blueprint's name."""
    version: int
    """The blueprint's version."""
    digest: Digest
    """The digest of the blueprint."""
    profile: str
    """The current profile."""
    attributes: dict[str, JsonValue]
    """The attributes of the session."""
    turns: int
    """The number of submitted turns."""
    redacted: bool
    """Whether a reply was redacted."""
    opened_at: str
    """When it was opened."""
    last_at: str
    """When its latest event was recorded."""
    closed_at: str | None
    """When it was closed."""
    origin: OriginView | None = None
    """The session it came from."""


class SessionPage(ResponseModel):
    """A page of sessions, newest first."""

    sessions: tuple[ListedSession, ...]
    """The sessions."""
    next: str | None
    """The `before` of the next page; null on the last page."""
