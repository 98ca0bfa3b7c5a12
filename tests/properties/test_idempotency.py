from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.content import digest_of
from turnlog.projections.blueprint.schema import Policies
from turnlog.projections.session.commands import CloseSession, ExcludeTurn, RestoreTurn
from turnlog.projections.session.state import REMEMBERED_COMMANDS, Memo
from turnlog.projections.testing import Given, Keyed, claiming, exchange, opening, saying
from turnlog.projections.testing import given as given_session

TALKED = given_session(opening(), *exchange("Hi", "Hello"))


def memo(session: Given, key: str) -> Memo | None:
    return next((memo for memo in session.opened.commands if memo.key == key), None)


def test_a_submit_is_remembered_with_its_turn_and_its_place() -> None:
    session = given_session(opening(), Keyed(saying("Hi"), "k1", "body"))
    assert memo(session, "k1") == Memo("k1", digest_of("body"), 2, 1)


def test_a_queued_submit_is_remembered_too() -> None:
    session = given_session(opening(), saying("Hi"), Keyed(saying("More"), "k2"))
    assert memo(session, "k2") == Memo("k2", digest_of(""), 3, 2)


def test_the_opening_is_remembered() -> None:
    session = given_session(Keyed(opening(), "k0", "body"))
    assert memo(session, "k0") == Memo("k0", digest_of("body"), 1, None)


def test_a_command_of_many_events_is_remembered_once() -> None:
    session = given_session(opening(), saying("One"), saying("Two"), claiming())
    closed = session.later(Keyed(CloseSession("done"), "k3"))
    assert [found.key for found in closed.opened.commands] == ["k3"]
    assert closed.opened.forgotten_commands == 0


def test_an_interrupting_submit_is_remembered_by_the_turn_it_opens() -> None:
    stop = saying("Stop", Policies(second_submit="interrupt"))
    session = given_session(opening(), saying("Hi"), claiming(), Keyed(stop, "k4"))
    found = memo(session, "k4")
    assert found is not None
    assert (found.turn, found.sequence) == (2, session.opened.head.sequence)
    assert len(session.opened.commands) == 1


def test_what_comes_without_a_key_is_not_remembered() -> None:
    assert given_session(opening(), *exchange("Hi", "Hello")).opened.commands == ()


@given(st.lists(st.integers(0, 90), max_size=90))
def test_the_latest_commands_are_remembered_and_the_others_counted(keys: list[int]) -> None:
    session, remembered, forgotten = TALKED, list[str](), 0
    for at, key in enumerate(f"k{key}" for key in keys):
        asked = RestoreTurn(1) if at % 2 else ExcludeTurn(1)
        session = session.later(Keyed(asked, key))
        remembered = [*(known for known in remembered if known != key), key]
        forgotten += len(remembered) > REMEMBERED_COMMANDS
        remembered = remembered[-REMEMBERED_COMMANDS:]
    assert [found.key for found in session.opened.commands] == remembered
    assert session.opened.forgotten_commands == forgotten
