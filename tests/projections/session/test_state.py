from __future__ import annotations

from datetime import timedelta

import pytest

from turnlog.events.codec import rfc3339
from turnlog.events.content import Plain, digest_of
from turnlog.events.prompt import PromptFile, PromptsSnapshotted
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import TurnCompleted
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    EndAttempt,
    ExcludeTurn,
    RedactReply,
    RestoreTurn,
)
from turnlog.projections.session.state import OpenTurn, Run, Said, TurnRef
from turnlog.projections.session.turns import status_of
from turnlog.projections.testing import (
    SPENT,
    START,
    Given,
    answering,
    attempt_of,
    claiming,
    exchange,
    given,
    open_turn,
    opening,
    saying,
)

TALKED = given(opening(), *exchange("Hi", "Hello"))
REDACT = RedactReply(1, "a secret", "operator", "(Withheld.)")


def said(sequence: int, field: str, text: str) -> Said:
    at = rfc3339(START + timedelta(seconds=sequence - 1))
    return Said(sequence, 1_000 + sequence, field, digest_of(text), len(text), at)


def only(session: Given) -> TurnRef:
    (ref,) = session.opened.turns
    return ref


def test_before_it_is_opened_a_session_is_nothing() -> None:
    assert Given().state is None
    assert Given().recorded(*given(opening()).when(saying("Hi")).events).state is None


def test_an_opened_session_knows_what_it_runs_by() -> None:
    state = given(opening(reach=7, language="French")).opened
    assert (state.tenant, state.session) == ("acme", "s1")
    assert (state.attributes, state.reach, state.profile) == ({"language": "French"}, 7, "chat")
    assert state.opened == state.head


def test_the_head_is_the_last_event() -> None:
    assert TALKED.opened.head == TALKED.events[-1].head


def test_a_submitted_turn_is_open_from_then_on() -> None:
    session = given(opening(), saying("Hi"))
    assert open_turn(session.opened) == OpenTurn(
        turn=1,
        text=said(2, "text", "Hi"),
        event="00000000-0000-4000-8000-000000000002",
        released_at="2026-01-01T00:00:01.000000Z",
    )
    assert session.opened.submitted == 1


def test_a_released_turn_is_what_was_queued_and_open_from_its_release() -> None:
    session = given(opening(), saying("One"), saying("Two"), CancelTurn())
    opened = open_turn(session.opened)
    assert (opened.turn, opened.text) == (2, said(3, "text", "Two"))
    assert opened.event == "00000000-0000-4000-8000-000000000003"
    assert opened.released_at == session.events[-1].envelope.time
    assert session.opened.waiting == ()


def test_an_answered_turn_refers_to_what_was_said_and_repeats_none_of_it() -> None:
    assert only(TALKED) == TurnRef(1, "completed", said(2, "text", "Hi"), said(6, "text", "Hello"))
    assert TALKED.opened.completed == 1
    assert "Hello" not in repr(TALKED.opened)


def test_what_stands_for_a_withheld_reply_is_its_replacement() -> None:
    session = TALKED.later(REDACT)
    assert only(session).reply == said(7, "replacement", "(Withheld.)")
    assert only(session).redacted


def test_a_reply_withheld_while_it_is_said_ends_its_turn() -> None:
    withheld = ReplyRedacted(
        turn=1, reason="r", rule="pattern", replacement=Plain(text="(Withheld.)")
    )
    session = given(opening(), saying("Hi"), claiming(), withheld)
    assert session.opened.open is None
    assert only(session) == TurnRef(
        1, "completed", said(2, "text", "Hi"), said(4, "replacement", "(Withheld.)"), redacted=True
    )


def test_excluding_and_restoring_leave_a_turn_as_it_was() -> None:
    assert only(TALKED.later(ExcludeTurn(1))).excluded
    assert only(TALKED.later(ExcludeTurn(1), RestoreTurn(1))) == only(TALKED)


@pytest.mark.parametrize("steps", [1, 2])
def test_an_attempt_runs_until_it_ends(steps: int) -> None:
    session = given(opening(), saying("Hi"), claiming("w1"), claiming("w2"))
    opened = open_turn(session.opened)
    assert (opened.attempt, opened.running, opened.worker) == (2, True, "w2")
    handing_back = EndAttempt(attempt_of(session.opened), "cancelled", SPENT, "release")
    assert not open_turn(session.later(*[handing_back] * steps).opened).running


def test_the_end_of_an_earlier_attempt_does_not_end_the_latest() -> None:
    first = given(opening(), saying("Hi"), claiming("w1"))
    late = EndAttempt(attempt_of(first.opened), "cancelled", SPENT, "release")
    assert open_turn(first.later(claiming("w2"), late).opened).running


def test_prompts_are_known_by_provider() -> None:
    file = PromptFile(digest=digest_of("Be kind."), path="persona.md")
    session = given(
        opening(),
        PromptsSnapshotted(provider="openai", layers={"persona": file}),
        PromptsSnapshotted(provider="gemini", layers={}),
    )
    assert session.opened.prompts == {"openai": {"persona": file}, "gemini": {}}


def test_a_closed_session_has_nothing_open_and_nothing_waiting() -> None:
    state = given(opening(), saying("One"), saying("Two"), CloseSession("done")).opened
    assert (state.closed, state.open, state.waiting) == (True, None, ())
    assert [ref.status for ref in state.turns] == ["cancelled", "cancelled"]


def test_turns_out_of_reach_of_any_window_become_runs_of_numbers() -> None:
    session = given(opening(reach=2), *(step for _ in range(4) for step in exchange("a", "b")))
    assert session.opened.earlier == (Run(1, 3, "completed", excluded=False, redacted=False),)
    assert [ref.turn for ref in session.opened.turns] == [4]


def test_a_run_parts_around_a_turn_that_differs_and_closes_again() -> None:
    session = given(opening(reach=2), *(step for _ in range(4) for step in exchange("a", "b")))
    excluded = session.later(ExcludeTurn(2))
    assert [(run.first, run.last, run.excluded) for run in excluded.opened.earlier] == [
        (1, 1, False),
        (2, 2, True),
        (3, 3, False),
    ]
    assert excluded.later(RestoreTurn(2)).opened.earlier == session.opened.earlier


def test_an_answer_may_still_come_for_a_turn_behind_one_that_was_cancelled() -> None:
    session = given(opening(), saying("One"), saying("Two"), CancelTurn(2), claiming())
    answered = session.later(answering("Hello"))
    assert [(ref.turn, ref.status) for ref in answered.opened.turns] == [
        (1, "completed"),
        (2, "cancelled"),
    ]


def test_a_run_never_spans_a_turn_that_is_not_settled() -> None:
    answered = [
        TurnCompleted(turn=turn, call=f"{turn}.1", text=Plain(text="Hello"), finish="stop")
        for turn in (1, 3, 5)
    ]
    state = given(opening(reach=1), *answered).opened
    assert [(run.first, run.last) for run in state.earlier] == [(1, 1), (3, 3)]
    assert status_of(state, 2) is None
