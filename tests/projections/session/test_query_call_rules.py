"""A turn waits for queries once for each retrieval, and continues with them or without."""

from __future__ import annotations

from turnlog.events.model.call_events import AttemptFault
from turnlog.projections.session.commands import AnswerCall, GiveUpQueries, RequestQueries
from turnlog.projections.session.open_turn import WrittenQueries
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    claim_turn,
    get_attempt,
    get_open_turn,
    given,
    open_session,
    submit_turn,
)

FAULT = AttemptFault(code="timeout_total", detail="too late", retryable=True)


def request_queries(state: SessionState) -> RequestQueries:
    return RequestQueries(get_attempt(state), "documents")


def write_queries(state: SessionState) -> AnswerCall:
    return AnswerCall(attempt=get_attempt(state), text="berths", finish="stop", spent=SAMPLE_SPENT)


def give_up_queries(state: SessionState) -> GiveUpQueries:
    return GiveUpQueries(get_attempt(state), SAMPLE_SPENT, FAULT)


CLAIMED = given(open_session(), submit_turn("Which berth?"), claim_turn())


def test_queries_of_a_retrieval_are_requested_once() -> None:
    CLAIMED.when(request_queries).then_names("queries-requested")
    requested = CLAIMED.apply_steps(request_queries)
    requested.when(request_queries).then_names()
    requested.apply_steps(write_queries).when(request_queries).then_names()


def test_written_queries_start_the_next_call() -> None:
    requested = CLAIMED.apply_steps(request_queries)
    requested.when(write_queries).then_names("call-completed", "attempt-started")
    opened = get_open_turn(requested.apply_steps(write_queries).opened_state)
    (written,) = opened.queried
    assert (written.call, opened.querying, opened.attempt) == ("1.1", None, 2)
    assert written.answer is not None
    assert opened.answers == ()


def test_failed_queries_start_the_next_call_without_them() -> None:
    requested = CLAIMED.apply_steps(request_queries)
    requested.when(give_up_queries).then_names("attempt-ended", "queries-failed", "attempt-started")
    opened = get_open_turn(requested.apply_steps(give_up_queries).opened_state)
    assert opened.queried == (WrittenQueries("documents", "1.1", None),)
    assert (opened.querying, opened.attempt, opened.call.after_attempt) == (None, 2, 1)


def test_superseded_worker_records_only_what_its_query_call_cost() -> None:
    requested = CLAIMED.apply_steps(request_queries)
    late = get_attempt(requested.opened_state)
    moved = requested.apply_steps(claim_turn("w2"))
    moved.when(GiveUpQueries(late, SAMPLE_SPENT, FAULT)).then_names("attempt-ended")
