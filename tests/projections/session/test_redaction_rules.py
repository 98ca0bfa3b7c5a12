"""The rules by which a reply, a person's text or both are withheld, and what the state has then."""

from __future__ import annotations

import pytest

from turnlog.events.content import PlainText
from turnlog.events.model.redaction_events import RedactedSpan, ReplyRedacted, TextRedacted
from turnlog.events.model.turn_events import ReferenceUpdated
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import CancelTurn, CloseSession, SubmitTurn
from turnlog.projections.session.reference_inheritance import find_last_reference
from turnlog.projections.session.turn_commands import (
    DisplayTurn,
    RedactReply,
    RedactText,
    RedactTurn,
)
from turnlog.projections.testing import (
    CommandOrFactory,
    SessionScenario,
    build_exchange,
    claim_turn,
    given,
    open_session,
    submit_turn,
)

TALKED = given(open_session(), *build_exchange("Call me Zanzibar", "Hello"))

ASKED = given(open_session(), submit_turn("Hi"))

PART = (RedactedSpan(begin=8, end=16),)

HIDE = RedactReply(1, "a name", "operator", "(Withheld.)")

HIDDEN = ReplyRedacted(
    turn=1, reason="a name", rule="operator", replacement=PlainText(text="(Withheld.)")
)


def redact_words(
    words: str = "[withheld]", spans: tuple[RedactedSpan, ...] = (), turn: int = 1
) -> RedactText:
    return RedactText(turn=turn, reason="a name", rule="operator", replacement=words, spans=spans)


def build_redacted(words: str = "[withheld]", spans: tuple[RedactedSpan, ...] = ()) -> TextRedacted:
    replacement = PlainText(text=words)
    return TextRedacted(
        turn=1, reason="a name", rule="operator", replacement=replacement, spans=spans
    )


def test_part_of_a_text_is_redacted_then_another_and_at_last_all_of_it() -> None:
    part = redact_words("Call me [withheld]", PART)
    redacted = TALKED.when(part).then(build_redacted("Call me [withheld]", PART))
    again = redacted.when(redact_words("[withheld] me [withheld]", PART)).then(
        build_redacted("[withheld] me [withheld]", PART)
    )
    whole = again.when(redact_words()).then(build_redacted())
    whole.when(redact_words()).then_refused("already-redacted")
    whole.when(part).then_refused("already-redacted")


def test_text_and_reply_are_redacted_together_as_far_as_neither_is() -> None:
    both = RedactTurn(redact_words(), HIDE)
    done = TALKED.when(both).then(build_redacted(), HIDDEN)
    done.when(both).then_refused("already-redacted")
    TALKED.apply_steps(HIDE).when(both).then(build_redacted())
    TALKED.apply_steps(redact_words()).when(both).then(HIDDEN)


@pytest.mark.parametrize(
    "unsettled",
    [
        ASKED,
        ASKED.apply_steps(claim_turn()),
        ASKED.apply_steps(claim_turn(), submit_turn("Two"), CancelTurn(2)),
    ],
)
def test_text_of_an_open_turn_is_not_redacted(unsettled: SessionScenario) -> None:
    unsettled.when(redact_words()).then_refused("turn-open", field="turn")


def test_text_of_a_turn_that_there_is_not_is_refused() -> None:
    TALKED.when(redact_words(turn=2)).then_refused("unknown-turn", field="turn")


@pytest.mark.parametrize(
    "session",
    [
        ASKED.apply_steps(CancelTurn()),
        TALKED.apply_steps(CloseSession("done")),
        given(open_session(), SubmitTurn(text="Closed today.", policies=Policies(), role="system")),
    ],
)
def test_text_of_a_cancelled_turn_a_closed_session_and_the_system_is_redacted(
    session: SessionScenario,
) -> None:
    session.when(redact_words()).then(build_redacted())


def test_reply_of_a_turn_of_the_system_is_left_out_where_text_and_reply_are_redacted() -> None:
    noted = given(
        open_session(), SubmitTurn(text="Closed today.", policies=Policies(), role="system")
    )
    noted.when(RedactTurn(redact_words(), HIDE)).then(build_redacted())


@pytest.mark.parametrize(
    ("display", "code"),
    [
        (DisplayTurn(1, text="<b>Zanzibar</b>"), "text-withheld"),
        (DisplayTurn(1, text="<b>Zanzibar</b>", reply="<b>Hello</b>"), "text-withheld"),
    ],
)
def test_withheld_text_gets_no_new_display_form(display: DisplayTurn, code: str) -> None:
    redacted = TALKED.apply_steps(redact_words("Call me [withheld]", PART))
    redacted.when(display).then_refused(code, field="text")
    redacted.when(DisplayTurn(1, reply="<b>Hello</b>")).then_names("turn-displayed")


@pytest.mark.parametrize(
    ("steps", "is_due"),
    [
        ((), True),
        (build_exchange("Two", "Well."), False),
        ((submit_turn("Two"), CancelTurn()), True),
        ((submit_turn("Two"),), True),
    ],
)
def test_note_is_due_where_no_later_turn_was_answered(
    steps: tuple[CommandOrFactory, ...], *, is_due: bool
) -> None:
    redacted = TALKED.apply_steps(*steps, redact_words()).opened_state
    assert (redacted.text_note is not None, redacted.note) == (is_due, None)


def test_state_has_what_stands_and_where_the_text_was_submitted() -> None:
    before = TALKED.opened_state.turns[0]
    redacted = TALKED.apply_steps(
        redact_words("Call me [withheld]", PART), redact_words("[withheld]")
    )
    after = redacted.opened_state.turns[0]
    assert before.text
    assert after.text
    assert (after.text.sequence, after.text.field) == (redacted.events[-1].sequence, "replacement")
    assert (after.text.at, after.text_redaction) == (before.text.at, "whole")
    assert after.submission
    assert (after.submission.sequence, after.submission.place) == (
        before.text.sequence,
        before.text.place,
    )


def test_no_later_turn_inherits_what_a_withheld_text_was_about() -> None:
    about = ReferenceUpdated(turn=1, identifiers={"place": "Zanzibar"})
    session = TALKED.append_events(about)
    assert find_last_reference(session.opened_state)
    redacted = session.apply_steps(redact_words())
    assert find_last_reference(redacted.opened_state) is None
