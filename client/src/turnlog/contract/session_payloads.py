"""The responses about sessions: opening, state, forks and the list."""

from __future__ import annotations

from typing import Literal

from turnlog.contract.payload_models import JsonObject, ResponseModel
from turnlog.contract.usage_payloads import SessionUsage
from turnlog.contract.use_payloads import SourceErasureReceipt
from turnlog.contract.value_names import ErasedPart, ErasureStatus, ShareAccess


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


class ErasedTurnView(ResponseModel):
    """A turn of which something is erased."""

    turn: int
    """The turn number."""
    of: ErasedPart
    """What of it."""


class ErasedSessionView(ResponseModel):
    """What an erasure reaches in one session."""

    session: str
    """The session: the one asked for, a fork of it, or a child that it asked."""
    begun: int | None
    """Sequence of the event that began its part; null for a plan, and before it has begun."""
    ended: int | None
    """Sequence of the event that ended it: from then on nobody can open the words."""
    ended_at: str | None = None
    """When it ended; null before that."""
    turns: tuple[ErasedTurnView, ...]
    """The turns of which something is erased; empty where all of the session is."""
    leaves: str
    """The keys that go, in the form of `sealedof`."""
    events: tuple[int, ...]
    """Sequences of all events whose words are under one of these keys."""
    calls: tuple[str, ...]
    """The calls among them: their prompts had the words, or something made of them, and cannot be
    read or reproduced any more.
    """
    repeating_turns: tuple[int, ...]
    """Later turns of these calls whose replies stay, and may repeat the words."""
    generation: int | None = None
    """The generation of the keyring by which a copy of the keys from before `ended_at`, as in a
    back-up, can still be opened until it is retired; null until it has ended.
    """
    record_before: str | None = None
    """Digest of the stored record of keys before."""
    record_after: str | None = None
    """Digest of the record after."""
    left: tuple[int, ...] = ()
    """Events that can still be opened although they should not; the checking pass found them."""


class ErasureReceipt(ResponseModel):
    """What an erasure reaches, and how far it is."""

    session: str
    """The session."""
    erasure: int | None
    """Sequence of the event that began it; null for a plan."""
    at: str | None
    """When it was begun; null for a plan."""
    by: str | None
    """Who asked for it; null for a plan."""
    reason: str
    """Why."""
    status: ErasureStatus
    """`planned`, `begun`, `erased`, or `incomplete` where the checking pass found words."""
    sessions: tuple[ErasedSessionView, ...]
    """The session, then its forks and children, and theirs."""
    kept_elsewhere: tuple[str, ...]
    """What no erasure here can reach."""


class ChainPlace(ResponseModel):
    """An event of a session, by its place and its bytes."""

    sequence: int
    """Its sequence."""
    hash: str
    """Digest of its stored bytes."""


class ReachedEvent(ResponseModel):
    """An event that an erasure reached."""

    sequence: int
    """Its sequence."""
    id: str
    """Its id."""
    type: str
    """What it is; a prompt is `turnlog.context-assembled.v1`."""


class KeptKeyView(ResponseModel):
    """A key that is left of a session: all keys of some leaves follow from it."""

    first: int
    """The first of these leaves."""
    last: int
    """The last one."""
    hash: str
    """Digest that names the key and tells nothing of it."""
    key: str | None = None
    """The key, in hexadecimal; null unless it is asked for, and for turns after the erasure."""


class ErasureProofPart(ResponseModel):
    """What can be shown of an erasure in one session."""

    session: str
    """The session."""
    head: ChainPlace
    """The last event when this was made."""
    before: ChainPlace | None
    """The last event before those that began the erasure; null where there was none."""
    events: tuple[ReachedEvent, ...]
    """The events that it reached."""
    keys_left: str | None
    """Digest of the list of keys, as an event `content-erased` of the session has it; null where
    an earlier release ended the last erasure.
    """
    keys: tuple[KeptKeyView, ...]
    """The keys that are left, by their leaves; empty where `keys_left` is null, or nothing is."""


class ErasureProof(ResponseModel):
    """What can be shown of an erasure to who does not believe the service.

    `turnlog receipt` signs it, and a bundle of the sessions is checked against it.
    """

    tenant: str
    """The tenant of the sessions."""
    receipt: ErasureReceipt
    """The receipt."""
    parts: tuple[ErasureProofPart, ...]
    """What belongs to each of its sessions, in their order."""


class ErasureList(ResponseModel):
    """The erasures of a session."""

    session: str
    """The session."""
    erasures: tuple[ErasureReceipt, ...]
    """Their receipts, in order."""


class SkippedSession(ResponseModel):
    """A session of which nothing could be erased, and why."""

    session: str
    """The session; `overrides:USER` for the own prompts of a user."""
    code: str
    """The code of the error: `not-sealed`, `turn-open`."""
    detail: str
    """What stands in the way."""


class UserErasure(ResponseModel):
    """What an erasure of a user reaches."""

    user: str
    """The user."""
    receipts: tuple[ErasureReceipt, ...]
    """The receipt of each session."""
    skipped: tuple[SkippedSession, ...]
    """Sessions of the user in which it could not be done."""
    sources: tuple[SourceErasureReceipt, ...] = ()
    """The receipts of the user's own prompts."""
