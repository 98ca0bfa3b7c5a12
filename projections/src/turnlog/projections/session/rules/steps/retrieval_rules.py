"""Rules for retrievals: each is recorded once a turn, and so are the queries that a model writes.

A turn that waits for queries continues in any case. If their call fails, the same batch says so and
starts the next call. A retrieval is recorded under the claim of the attempt that made it, before
the call that uses it. An attempt that takes the turn over finds it there and does not search again.
"""

from __future__ import annotations

from turnlog.events.model.retrieval_events import QueriesFailed, QueriesRequested
from turnlog.projections.session.commands import GiveUpQueries, RecordRetrieval, RequestQueries
from turnlog.projections.session.open_turn import OpenTurn, TurnRetrieval, WrittenQueries
from turnlog.projections.session.rules.attempt_events import (
    NewEvents,
    end_side_call,
    find_claimed_turn,
    start_next_call,
)
from turnlog.projections.session.state import SessionState


def find_retrieval(opened: OpenTurn | None, name: str) -> TurnRetrieval | None:
    """Return the retrieval that a turn has made under this name, or None."""
    made = opened.retrievals if opened else ()
    return next((each for each in made if each.retrieval == name), None)


def find_written_queries(opened: OpenTurn | None, name: str) -> WrittenQueries | None:
    """Return what the call for the queries of a retrieval answered; None before it is settled."""
    written = opened.queried if opened else ()
    return next((each for each in written if each.retrieval == name), None)


def request_queries(state: SessionState, command: RequestQueries) -> NewEvents:
    """Let the open turn wait for the queries of a retrieval, once for each."""
    opened, name = find_claimed_turn(state, command.attempt), command.retrieval
    if opened is None or opened.summing or opened.querying or find_written_queries(opened, name):
        return ()
    return (QueriesRequested(turn=opened.turn, retrieval=name),)


def fail_queries(state: SessionState, command: GiveUpQueries) -> NewEvents:
    """Record why no queries were written, and start the next call."""
    fault, ended = command.fault, end_side_call(command)
    opened = find_claimed_turn(state, command.attempt)
    if opened is None or opened.querying is None:
        return (ended,)
    failed = QueriesFailed(
        turn=opened.turn, retrieval=opened.querying, code=fault.code, detail=fault.detail
    )
    return (ended, failed, start_next_call(opened))


def record_retrieval(state: SessionState, command: RecordRetrieval) -> NewEvents:
    """Record a retrieval, once for each name; nothing where the claim is lost."""
    opened, retrieved = find_claimed_turn(state, command.attempt), command.retrieved
    if opened is None or find_retrieval(opened, retrieved.retrieval):
        return ()
    return (retrieved,)
