"""What may be erased, what is withheld first, and what of it the state keeps no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import (
    ContentErased,
    ErasedPart,
    ErasedTurn,
    ErasureBegun,
    ReplyRedacted,
    TextRedacted,
)
from turnlog.events.model.session_events import SessionClosed
from turnlog.events.model.turn_events import TurnExcluded
from turnlog.events.registry import KnownEvent
from turnlog.events.testing import record_events
from turnlog.projections.session.rules.erasure_rules import begin_erasure, end_erasure
from turnlog.projections.session.rules.event_leaves import list_event_leaves
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import BeginErasure, EndErasure
from turnlog.projections.store.write.event_rows import build_changes
from turnlog.projections.store.write.row_changes import PatchRow
from turnlog.projections.testing import (
    SESSION,
    SessionScenario,
    build_exchange,
    given,
    open_session,
    submit_turn,
)

HISTORY = given(
    open_session(language="en"), *build_exchange("one", "1"), *build_exchange("two", "2")
)


def seal_state(scenario: SessionScenario) -> SessionState:
    """Return the state of a history as if the session were sealed."""
    return replace(scenario.opened_state, sealed_under=1)


def decide_erasure(state: SessionState, *turns: tuple[int, ErasedPart]) -> tuple[KnownEvent, ...]:
    named = tuple(ErasedTurn(turn=turn, of=of) for turn, of in turns)
    command = BeginErasure(turns=named, reason="asked", replacement="[erased]", leaves="")
    return tuple(begin_erasure(state, command))


def fold_after(*turns: tuple[int, ErasedPart]) -> SessionState:
    """Return the state after the beginning of an erasure."""
    return HISTORY.append_events(*decide_erasure(seal_state(HISTORY), *turns)).opened_state


def refuse_erasure(state: SessionState, *turns: tuple[int, ErasedPart]) -> Refused:
    with pytest.raises(Refused) as refused:
        decide_erasure(state, *turns)
    return refused.value


@pytest.mark.parametrize(
    ("of", "kinds", "leaves"),
    [
        ("text", [TextRedacted, ErasureBegun], f"{SESSION}:4"),
        ("work", [ReplyRedacted, ErasureBegun], f"{SESSION}:5"),
        ("turn", [TextRedacted, ReplyRedacted, ErasureBegun], f"{SESSION}:4-5"),
    ],
)
def test_erased_parts_are_replaced_before_their_keys_are_named(
    of: ErasedPart, kinds: list[type], leaves: str
) -> None:
    events = decide_erasure(seal_state(HISTORY), (2, of))
    assert [type(each) for each in events] == kinds
    begun = events[-1]
    assert isinstance(begun, ErasureBegun)
    assert begun.leaves == leaves


def test_whole_session_is_closed_and_names_all_keys() -> None:
    closed, begun = decide_erasure(seal_state(HISTORY))
    assert isinstance(closed, SessionClosed)
    assert isinstance(begun, ErasureBegun)
    assert begun.leaves == f"{SESSION}:0-2097151"
    state = fold_after()
    assert (state.erased, state.attributes, state.closed) == (True, {}, True)
    assert refuse_erasure(replace(state, sealed_under=1)).code == "already-erased"


def test_plain_session_and_open_turns_are_refused_with_the_way_out() -> None:
    assert refuse_erasure(HISTORY.opened_state, (1, "turn")).code == "not-sealed"
    opened = given(open_session(), *build_exchange("one", "1"), submit_turn("two"))
    refused = refuse_erasure(seal_state(opened), (1, "turn"))
    assert (refused.code, refused.fix) == ("turn-open", "cancel it, or wait for it")
    assert refuse_erasure(seal_state(HISTORY), (3, "turn")).code == "unknown-turn"


def test_later_events_are_under_no_key_that_is_gone() -> None:
    state = fold_after((1, "work"))
    assert list_event_leaves(SESSION, state, TurnExcluded(turn=1)) == {SESSION: frozenset({0})}
    assert list_event_leaves(SESSION, state, TurnExcluded(turn=2)) == {SESSION: frozenset({5})}
    (*_, begun) = decide_erasure(seal_state(HISTORY), (2, "turn"))
    assert list_event_leaves(SESSION, state, begun) == {}


def test_erasure_is_under_way_until_it_ends_and_ends_once() -> None:
    state = fold_after((2, "turn"))
    begun = state.head.sequence
    assert (state.erasing, state.erased_in, state.called) == ((begun,), begun, {})
    erased = ContentErased(begun=begun, generation=1, record_before="a", record_after="b")
    assert tuple(end_erasure(state, EndErasure(erased))) == (erased,)
    ended = replace(state, erasing=())
    assert tuple(end_erasure(ended, EndErasure(erased))) == ()


def test_row_of_a_session_says_that_one_of_its_erasures_is_open_until_all_have_ended() -> None:
    state = replace(fold_after((2, "turn")), erasing=(3, 9))
    erased = ContentErased(begun=9, generation=1, record_before="a", record_after="b")
    (ended,) = end_erasure(state, EndErasure(erased))
    assert find_erasing(ended) == 3
    (last,) = end_erasure(
        replace(state, erasing=(3,)), EndErasure(erased.model_copy(update={"begun": 3}))
    )
    assert find_erasing(last) is None


def find_erasing(event: KnownEvent) -> object:
    """Return what the row of the session says of an erasure once the event is folded."""
    (change,) = build_changes(record_events(event)[0])
    assert isinstance(change, PatchRow)
    return change.values["erasing"]


def test_window_of_an_erased_turn_has_what_stands_instead_and_nothing_of_its_tools() -> None:
    state = fold_after((2, "turn"))
    erased = next(ref for ref in state.turns if ref.turn == 2)
    assert erased.text is not None
    assert erased.reply is not None
    assert {erased.text.field, erased.reply.field} == {"replacement"}
    assert (erased.work, erased.outcomes, erased.results, erased.media) == (None, None, (), ())
    assert erased.characters == 2 * len(PlainText(text="[erased]").text)
