"""Events of the child family: turns of other sessions that a coordinator's turn asks for.

A child is a session of its own, with its own log. The parent records what it asks a child for, and
what came of it; everything in between is in the child's log. `ChildSettled` is on a subject that
workers wait for: one of them continues the parent's turn, or cancels a child's turn that the parent
no longer waits for. So is `ChildEnded`, the only one that is in the child's log: one of them tells
the parent.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from turnlog.events.content import Digest, Words
from turnlog.events.event_model import EventModel, StatelessEvent


class ParentInput(EventModel):
    """An input that a parent's turn hands to a child's turn, by reference.

    Its text is a blob, so the child's own record has everything that its prompts need.
    """

    name: str
    """The name of the input, in the parent's turn as in the child's."""
    session: str
    """The parent session."""
    turn: int
    """The turn of the parent that has it."""
    sequence: int
    """Sequence of the event in the parent session that submitted that turn."""
    digest: Digest
    """Digest of the blob, which is the text in UTF-8."""


class ChildRequested(EventModel):
    """A coordinator asks a child profile; its turn goes on when all its children are settled."""

    type: ClassVar[str] = "turnlog.child-requested.v1"
    leaf: ClassVar[str] = "tool"
    sentence: ClassVar[str] = "call {call} · {profile} as turn {child_turn} of {session}"

    turn: int
    """The turn number."""
    call: str
    """The call whose answer asks; with `id` it names the event with the query."""
    id: str
    """The provider's id of the tool request."""
    profile: str
    """The profile of the child, which is also the tool that the model called."""
    session: str
    """Id of the child session, derived from this session, its blueprint and the profile."""
    child_turn: int
    """Number of the turn in the child session, in the order in which this session asks it."""


ChildOutcome = Literal["answered", "failed", "cancelled", "timed-out", "waiting", "withdrawn"]
"""What came of a child's turn, as its parent sees it."""


class ChildSettled(EventModel):
    """A child's turn ended, or its parent no longer waits for it.

    The result that the model reads is in the `tool-returned` before it. The deadline of the
    parent's turn counts from here again.
    """

    type: ClassVar[str] = "turnlog.child-settled.v1"
    leaf: ClassVar[str] = "turn.released"
    sentence: ClassVar[str] = (
        "call {call} · {profile} {outcome}[: {detail}] · turn {child_turn} of {session}"
    )

    turn: int
    """The turn number."""
    call: str
    """The call whose answer asked for it."""
    id: str
    """The provider's id of the tool request."""
    profile: str
    """The profile of the child."""
    session: str
    """Id of the child session."""
    child_turn: int
    """Number of the turn in the child session."""
    outcome: ChildOutcome
    """`waiting`: for a person's approval, and the parent went on. `timed-out` and `withdrawn`: the
    child's turn is cancelled, since it took too long, or the parent's own turn is over.
    """
    detail: Words = ""
    """Why there is no reply, for people."""


class ChildEnded(StatelessEvent):
    """A person ended a turn of this child session, by cancelling it or by closing the session.

    No worker may have had the turn, so this event is delivered to one, which tells the parent.
    """

    type: ClassVar[str] = "turnlog.child-ended.v1"
    leaf: ClassVar[str] = "turn.released"
    sentence: ClassVar[str] = "turn {turn} · asked by {parent}"

    turn: int
    """The number of the turn that ended."""
    parent: str
    """The session that asked for it."""


KnownChildEvent = ChildRequested | ChildSettled | ChildEnded
"""The events of child sessions that this release writes and reads."""
