"""Rules for retrievals: each is recorded once a turn, and people judge what came of it.

A retrieval is recorded under the claim of the attempt that made it, before the call that uses it.
An attempt that takes the turn over finds it there and does not search again. A vote is on the reply
of a turn, and counts for everything that the turn had taken.
"""

from __future__ import annotations

from typing import assert_never

from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.retrieval_events import FeedbackGiven
from turnlog.projections.session.commands import (
    GiveFeedback,
    RecordRetrieval,
    RetrievalCommand,
)
from turnlog.projections.session.fold.settled_turns import find_settled_turn
from turnlog.projections.session.rules.attempt_events import NewEvents, find_claimed_turn
from turnlog.projections.session.state import OpenTurn, SessionState, TurnRetrieval


def decide_retrieval(state: SessionState, command: RetrievalCommand) -> NewEvents:
    """Return the events of a retrieval, or of what somebody thinks of one."""
    match command:
        case RecordRetrieval():
            return record_retrieval(state, command)
        case GiveFeedback():
            return record_feedback(state, command)
        case _ as never:
            assert_never(never)


def find_retrieval(opened: OpenTurn | None, name: str) -> TurnRetrieval | None:
    """Return the retrieval that a turn has made under this name, or None."""
    made = opened.retrievals if opened else ()
    return next((each for each in made if each.retrieval == name), None)


def record_retrieval(state: SessionState, command: RecordRetrieval) -> NewEvents:
    """Record a retrieval, once for each name; nothing where the claim is lost."""
    opened, retrieved = find_claimed_turn(state, command.attempt), command.retrieved
    if opened is None or find_retrieval(opened, retrieved.retrieval):
        return ()
    return (retrieved,)


def record_feedback(state: SessionState, command: GiveFeedback) -> NewEvents:
    """Record a vote on the reply of a turn; refuse a turn without one."""
    turn, comment = command.turn, command.comment
    if not 1 <= turn <= state.submitted:
        raise Refused("unknown-turn", f"there is no turn {turn}", field="turn")
    found = find_settled_turn(state, turn)
    if found is None or found.status != "completed" or found.role == "system":
        what = f"turn {turn} has no reply that could be judged"
        raise Refused("no-reply", what, field="turn", fix="wait until it is answered")
    said = None if comment is None else PlainText(text=comment)
    return (FeedbackGiven(turn=turn, vote=command.vote, comment=said),)
