"""Turns of children in explanations: those that a turn asked for, and the one that asked for it.

An explanation of a coordinator's turn leads down to its children, and that of a child's turn leads
up to the parent's, where the answer stands from which the child got its text.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.model.child_events import ChildOutcome, ChildRequested, ChildSettled
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.part_provenance import EventRef, build_event_ref
from turnlog.projections.audit.record.partial_log import PartialLog


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedChild:
    """A child's turn that a turn asked for; the child's own explanation says why it replied so."""

    by: EventRef
    """The event that requested it."""
    call: str
    """The call whose answer asked for it."""
    profile: str
    """The profile of the child."""
    session: str
    """Id of the child session."""
    turn: int
    """Number of the turn in the child session."""
    outcome: ChildOutcome | None
    """Its outcome; None while the turn waits for it."""


def list_explained_children(log: PartialLog, turn: int) -> tuple[ExplainedChild, ...]:
    """Return the children that a turn asked, in order; all events of the turn must be loaded."""
    outcomes: dict[tuple[str, int], ChildOutcome] = {
        (each.session, each.child_turn): each.outcome
        for recorded in log.events
        if isinstance(each := recorded.event, ChildSettled)
    }
    return tuple(
        ExplainedChild(
            by=build_event_ref(recorded),
            call=each.call,
            profile=each.profile,
            session=each.session,
            turn=each.child_turn,
            outcome=outcomes.get((each.session, each.child_turn)),
        )
        for recorded in log.events
        if isinstance(each := recorded.event, ChildRequested) and each.turn == turn
    )


@dataclass(frozen=True, slots=True)
class ExplainedParent:
    """The turn of another session that asked for a child's turn, with the text that it answers."""

    session: str
    """Id of the parent session."""
    turn: int
    """Number of the turn in the parent session."""
    call: str
    """The parent's call whose answer asked for the child's turn."""
    id: str
    """The provider's id of the tool request in that answer; its arguments have the text."""


def find_explained_parent(side: CallSnapshot) -> ExplainedParent | None:
    """Return the turn that requested the turn of a call; None in a session without a parent."""
    origin = side.state.origin
    if origin is None or not side.state.is_child:
        return None
    match side.submission.meta:
        case {"turn": int(turn), "call": str(call), "id": str(id)}:
            return ExplainedParent(origin.session, turn, call, id)
        case _:
            return None
