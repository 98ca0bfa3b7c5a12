"""The responses about sessions: opening, state, forks and the list."""

from __future__ import annotations

from typing import Literal

from turnlog.contract.payload_models import JsonObject, ResponseModel
from turnlog.contract.usage_payloads import SessionUsage
from turnlog.contract.value_names import ShareAccess


class OriginRow(ResponseModel):
    """The origin of a session."""

    kind: Literal["parent", "fork"]
    """Whether it is a coordinator's child or a fork."""
    session: str
    """The id of the origin."""
    sequence: int
    """The origin's sequence at which it was created."""


class OpenedSession(ResponseModel):
    """An opened session."""

    session: str
    """The session id."""
    blueprint: str
    """The blueprint's name."""
    digest: str
    """The digest of the blueprint that the session is pinned to."""
    sequence: int
    """The sequence of the event that opened it."""
    warnings: tuple[str, ...] = ()
    """The faults of the files at opening, such as a prompt file that is missing."""


class ForkedSession(ResponseModel):
    """A fork, which has all events of its origin up to a sequence."""

    session: str
    """The session id."""
    origin: OriginRow
    """The origin."""
    blueprint: str
    """The blueprint's name."""
    digest: str
    """The digest of the blueprint that the session is pinned to."""
    sequence: int
    """The last sequence."""


class PendingApproval(ResponseModel):
    """A tool that waits for a person's decision."""

    approval: int
    """The number of the approval within the turn."""
    call: str
    """The call whose answer requested the tool."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The name of the tool."""
    digest: str | None = None
    """The digest of its arguments; a decision names it as `shown`."""
    deadline: str
    """Without a decision by then the tool is refused."""


class ShareView(ResponseModel):
    """A user whom a session is shared with."""

    user: str
    """The user."""
    access: ShareAccess
    """What the user may do."""


class OpenTurnView(ResponseModel):
    """The turn that is being answered."""

    turn: int
    """The turn number."""
    attempt: int
    """The latest attempt; 0 before a worker claims the turn."""
    running: bool
    """Whether that attempt is still running."""
    released_at: str
    """When the turn became open, or an approval was decided last."""
    approvals: tuple[PendingApproval, ...] = ()
    """The tools that wait for a decision; the turn goes on when there are none."""


class RecordedChoice(ResponseModel):
    """A choice made in a static phase."""

    phase: str
    """The phase that offered it."""
    choice: str
    """The choice."""
    label: str | None
    """The text of the choice in prompts."""


class UnreadableMessage(ResponseModel):
    """A broken event behind the last one of a session; nothing can follow it."""

    position: int
    """Its stream sequence."""
    reason: str
    """Why it cannot be read."""


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
    digest: str
    """The digest of the blueprint."""
    profile: str
    """The current profile."""
    model: str | None = None
    """The requested model that overrides the profile's own."""
    attributes: JsonObject
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
    choices: tuple[RecordedChoice, ...] = ()
    """The choices so far."""
    warnings: tuple[str, ...] = ()
    """The faults of the files at opening, and the defaults used instead."""
    origin: OriginRow | None = None
    """The session it came from."""
    title: str | None = None
    """The title that was given; null if none was, or if it is sealed or erased."""
    labels: tuple[str, ...] = ()
    """The labels, in the order in which they were given."""
    metadata: JsonObject = {}
    """The application's own values."""
    owner: str | None = None
    """The user whose session it is; null for one that belongs to no user."""
    shares: tuple[ShareView, ...] = ()
    """The users whom it is shared with."""
    unreadable: UnreadableMessage | None = None
    """What is stored behind the last event and is none, so that nothing can follow."""
    sealed: bool = False
    """Whether what is said in it is encrypted under keys of its own, so that it can be erased."""
    erased: bool = False
    """Whether all words of it were erased."""


class SessionRow(ResponseModel):
    """A session in a list; times are those of its events, RFC 3339 in UTC."""

    session: str
    """The session id."""
    sequence: int
    """The last sequence that the read models contain."""
    title: str | None
    """The title that was given, otherwise the first turn's text, shortened to one line; None if
    there is none that may be shown.
    """
    blueprint: str
    """The blueprint's name."""
    version: int
    """The blueprint's version."""
    digest: str
    """The digest of the blueprint."""
    profile: str
    """The current profile."""
    attributes: JsonObject
    """The attributes of the session."""
    turns: int
    """The number of submitted turns."""
    redacted: bool
    """Whether a reply or a text was redacted."""
    opened_at: str
    """When it was opened."""
    last_at: str
    """When its latest event was recorded."""
    closed_at: str | None
    """When it was closed."""
    usage: SessionUsage
    """The tokens and the cost of all its calls so far."""
    origin: OriginRow | None = None
    """The session it came from."""
    children_usage: SessionUsage | None = None
    """The same of the children that its turns asked, and of theirs; None if none was asked."""
    total_usage: SessionUsage | None = None
    """Both together; None if no child was asked."""
    labels: tuple[str, ...] = ()
    """The labels, in the order in which they were given."""
    owner: str | None = None
    """The user whose session it is; null for one that belongs to no user."""
    stopped: str | None = None
    """Why its rows end before its log: an event of it cannot be read or folded."""
    stray_messages: int = 0
    """How many messages under its subjects are no events of it; they are passed over."""
    budget_share: float | None = None
    """How much of its budget the last prompt took, of those that had one: 0.94 is 94 %."""


class SessionPage(ResponseModel):
    """A page of sessions, newest first or in the order that was asked for."""

    sessions: tuple[SessionRow, ...]
    """The sessions."""
    next: str | None
    """The `before` of the next page; null on the last page."""
