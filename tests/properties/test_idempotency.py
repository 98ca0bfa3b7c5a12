from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.content import compute_digest
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import CloseSession, ExcludeTurn, RestoreTurn
from turnlog.projections.session.state import MAX_IDEMPOTENCY_RECORDS, IdempotencyRecord
from turnlog.projections.testing import (
    KeyedCommand,
    SessionScenario,
    build_exchange,
    claim_turn,
    open_session,
    submit_turn,
)
from turnlog.projections.testing import given as given_session

TALKED = given_session(open_session(), *build_exchange("Hi", "Hello"))


def find_command_record(session: SessionScenario, key: str) -> IdempotencyRecord | None:
    return next((memo for memo in session.opened_state.commands if memo.key == key), None)


def test_submit_has_an_idempotency_record_with_its_turn_and_sequence() -> None:
    session = given_session(open_session(), KeyedCommand(submit_turn("Hi"), "k1", "body"))
    assert find_command_record(session, "k1") == IdempotencyRecord(
        "k1", compute_digest("body"), 2, 1
    )


def test_queued_submit_has_an_idempotency_record() -> None:
    session = given_session(
        open_session(), submit_turn("Hi"), KeyedCommand(submit_turn("More"), "k2")
    )
    assert find_command_record(session, "k2") == IdempotencyRecord("k2", compute_digest(""), 3, 2)


def test_opening_has_an_idempotency_record() -> None:
    session = given_session(KeyedCommand(open_session(), "k0", "body"))
    assert find_command_record(session, "k0") == IdempotencyRecord(
        "k0", compute_digest("body"), 1, None
    )


def test_command_with_many_events_has_one_idempotency_record() -> None:
    session = given_session(open_session(), submit_turn("One"), submit_turn("Two"), claim_turn())
    closed = session.apply_steps(KeyedCommand(CloseSession("done"), "k3"))
    assert [found.key for found in closed.opened_state.commands] == ["k3"]
    assert closed.opened_state.forgotten_commands == 0


def test_idempotency_record_of_an_interrupting_submit_has_the_turn_that_it_opens() -> None:
    stop = submit_turn("Stop", Policies(second_submit="interrupt"))
    session = given_session(
        open_session(), submit_turn("Hi"), claim_turn(), KeyedCommand(stop, "k4")
    )
    found = find_command_record(session, "k4")
    assert found is not None
    assert (found.turn, found.sequence) == (2, session.opened_state.head.sequence)
    assert len(session.opened_state.commands) == 1


def test_command_without_a_key_has_no_idempotency_record() -> None:
    assert given_session(open_session(), *build_exchange("Hi", "Hello")).opened_state.commands == ()


@given(st.lists(st.integers(0, 90), max_size=90))
def test_latest_idempotency_records_are_kept_and_forgotten_ones_counted(keys: list[int]) -> None:
    session, remembered, forgotten = TALKED, list[str](), 0
    for at, key in enumerate(f"k{key}" for key in keys):
        command = RestoreTurn(1) if at % 2 else ExcludeTurn(1)
        session = session.apply_steps(KeyedCommand(command, key))
        remembered = [*(known for known in remembered if known != key), key]
        forgotten += len(remembered) > MAX_IDEMPOTENCY_RECORDS
        remembered = remembered[-MAX_IDEMPOTENCY_RECORDS:]
    assert [found.key for found in session.opened_state.commands] == remembered
    assert session.opened_state.forgotten_commands == forgotten
