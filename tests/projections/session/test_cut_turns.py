"""What is recorded and kept of a turn that is cancelled, interrupted, closed or fails."""

from __future__ import annotations

from typing import get_args

import pytest

from turnlog.events.content import PlainText
from turnlog.events.model.call_events import AttemptEnded, AttemptFault
from turnlog.events.model.tool_events import ToolCalled, ToolReturned, ToolStarted
from turnlog.events.model.turn_events import TurnCancelled, TurnFailed, TurnSubmitted
from turnlog.projections.blueprint.schema.policy_specs import CutTurnPolicy, Policies
from turnlog.projections.session.commands import (
    AttemptRef,
    CancelTurn,
    ClaimTurn,
    CloseSession,
    EndAttempt,
    ExcludeTurn,
    FailBrokenTurn,
    RestoreTurn,
    SubmitTurn,
)
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.fold.settled_turns import find_settled_turn
from turnlog.projections.session.open_turn import CutReply
from turnlog.projections.session.rules.steps.outcome_rules import (
    BROKEN_REPLY_LINE,
    FAILED_TURN_LINE,
    REPEATED_FAILURES,
    STOPPED_REPLY_LINE,
    STOPPED_TURN_LINE,
)
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.session_views.session_history import HistoryTurn, build_history
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    CommandOrFactory,
    SessionScenario,
    build_exchange,
    claim_turn,
    given,
    open_session,
    submit_turn,
)

CLAIMED = given(open_session(), submit_turn("Hi"), claim_turn())

SHOWN = CutReply("keep_partial", "Hel")

FIRST = AttemptRef(1, "1.1", 1)

CUTS: dict[str, CommandOrFactory] = {
    "cancelled": CancelTurn(cut=SHOWN),
    "interrupted": SubmitTurn(
        text="No, wait.", policies=Policies(second_submit="interrupt"), cut=SHOWN
    ),
    "closed": CloseSession("done", SHOWN),
}


def find_cut(session: SessionScenario, turn: int = 1) -> TurnCancelled | TurnFailed:
    """Return the event that ended a turn."""
    ends = [each.event for each in session.events]
    found = [each for each in ends if isinstance(each, TurnCancelled | TurnFailed)]
    return next(each for each in found if each.turn == turn)


def read_turn(session: SessionScenario, turn: int = 1) -> HistoryTurn:
    return build_history(session.events)[turn - 1]


def list_messages(session: SessionScenario) -> list[tuple[str, str]]:
    """Return what a prompt includes of the first turn; nothing if windows leave it out."""
    found = find_settled_turn(session.opened_state, 1)
    if found is None or not found.is_usable or found.excluded:
        return []
    return [(each.role, each.content) for each in read_turn(session).messages.messages]


def fail_attempt(
    code: str = "server_error", policy: CutTurnPolicy = "keep_partial", partial: str = "Hel"
) -> EndAttempt:
    return EndAttempt(
        attempt=FIRST,
        outcome="failed",
        spent=SAMPLE_SPENT,
        then="fail",
        fault=AttemptFault(code=code, detail="no", retryable=False),
        partial=partial,
        failed_policy=policy,
    )


@pytest.mark.parametrize("reason", CUTS)
def test_open_turn_keeps_what_was_shown_however_it_is_ended(reason: str) -> None:
    cut = CLAIMED.apply_steps(CUTS[reason])
    event = find_cut(cut)
    assert isinstance(event, TurnCancelled)
    assert (event.reason, event.shown) == (reason, 3)
    assert list_messages(cut) == [("user", "Hi"), ("assistant", f"Hel\n\n{STOPPED_REPLY_LINE}")]
    (lost,) = [each.event for each in cut.events if isinstance(each.event, AttemptEnded)]
    assert lost.partial == PlainText(text="Hel")


@pytest.mark.parametrize("policy", get_args(CutTurnPolicy))
def test_policy_decides_what_is_recorded_for_later_prompts(policy: CutTurnPolicy) -> None:
    replies = {
        "drop": (None, None),
        "keep_question": (STOPPED_TURN_LINE, FAILED_TURN_LINE),
        "keep_partial": (f"Hel\n\n{STOPPED_REPLY_LINE}", f"Hel\n\n{BROKEN_REPLY_LINE}"),
    }
    stopped = CLAIMED.apply_steps(CancelTurn(cut=CutReply(policy, "Hel")))
    failed = CLAIMED.apply_steps(fail_attempt(policy=policy))
    for session, reply in zip((stopped, failed), replies[policy], strict=True):
        event = find_cut(session)
        assert event.cut_reply == (reply and PlainText(text=reply))
        assert list_messages(session) == ([("user", "Hi"), ("assistant", reply)] if reply else [])
        assert find_shown(session) == "Hel"


def find_shown(session: SessionScenario) -> str:
    partial = read_turn(session).partial
    return partial.text if isinstance(partial, PlainText) else ""


@pytest.mark.parametrize("shown", ["", "  \n"])
def test_turn_of_which_nothing_was_shown_keeps_the_question_and_a_line(shown: str) -> None:
    cut = CLAIMED.apply_steps(CancelTurn(cut=CutReply("keep_partial", shown)))
    assert list_messages(cut) == [("user", "Hi"), ("assistant", STOPPED_TURN_LINE)]
    assert read_turn(cut).cut_line == STOPPED_TURN_LINE


@pytest.mark.parametrize("code", sorted(REPEATED_FAILURES))
def test_turn_whose_text_would_fail_later_prompts_is_dropped(code: str) -> None:
    failed = CLAIMED.apply_steps(fail_attempt(code))
    assert find_cut(failed).cut_reply is None
    assert list_messages(failed) == []


def test_queued_turn_that_is_withdrawn_leaves_nothing() -> None:
    queued = CLAIMED.apply_steps(submit_turn("Two"), CancelTurn(2, SHOWN))
    assert find_cut(queued, 2).cut_reply is None
    closed = CLAIMED.apply_steps(submit_turn("Two"), CloseSession("done", SHOWN))
    assert find_cut(closed, 2).cut_reply is None


def test_turn_without_a_text_of_which_nothing_was_shown_leaves_nothing() -> None:
    silent = given(open_session(), TurnSubmitted(turn=1), claim_turn())
    assert find_cut(silent.apply_steps(CancelTurn(cut=CutReply("keep_partial")))).cut_reply is None
    kept = silent.apply_steps(CancelTurn(cut=SHOWN))
    assert list_messages(kept) == [("assistant", f"Hel\n\n{STOPPED_REPLY_LINE}")]


@pytest.mark.parametrize(
    "command",
    [
        ClaimTurn(1, "w2", Policies(deadline_seconds=1e-6), "Hel"),
        ClaimTurn(1, "w2", Policies(max_claims=1), "Hel"),
        FailBrokenTurn(1, Policies(deadline_seconds=1e-6), "Hel"),
    ],
)
def test_turn_that_a_worker_gives_up_keeps_what_was_shown(command: CommandOrFactory) -> None:
    failed = CLAIMED.apply_steps(command)
    assert list_messages(failed) == [("user", "Hi"), ("assistant", f"Hel\n\n{BROKEN_REPLY_LINE}")]


def test_what_was_shown_follows_the_outcomes_of_tools() -> None:
    tool = {"turn": 1, "call": "1.1", "id": "t1", "tool": "look"}
    ran = CLAIMED.append_events(
        ToolCalled.model_validate({**tool, "arguments": "{}"}),
        ToolStarted.model_validate({**tool, "attempt": 1}),
        ToolReturned.model_validate({**tool, "outcome": "answered", "text": {"text": "A bird."}}),
    )
    silent, shown = (
        list_messages(ran.apply_steps(CancelTurn(cut=CutReply("keep_partial", text))))[1][1]
        for text in ("", "I saw")
    )
    assert "look" in silent
    assert STOPPED_TURN_LINE not in silent
    assert shown == f"{silent}\n\nI saw\n\n{STOPPED_REPLY_LINE}"


def test_later_end_of_the_attempt_changes_no_prompt() -> None:
    cut = CLAIMED.apply_steps(CancelTurn(cut=SHOWN))
    late = EndAttempt(
        attempt=FIRST, outcome="cancelled", spent=SAMPLE_SPENT, then="release", partial="Hello you"
    )
    later = cut.apply_steps(late)
    assert len(later.events) == len(cut.events) + 1
    assert list_messages(later) == list_messages(cut)
    assert find_shown(later) == "Hel"


def test_kept_turn_can_be_excluded_restored_and_withheld() -> None:
    cut = CLAIMED.apply_steps(CancelTurn(cut=SHOWN))
    excluded = cut.apply_steps(ExcludeTurn(1))
    assert list_messages(excluded) == []
    assert list_messages(excluded.apply_steps(RestoreTurn(1))) == list_messages(cut)
    withheld = cut.apply_steps(RedactReply(1, "a secret", "operator", "(Withheld.)"))
    assert list_messages(withheld) == [("user", "Hi"), ("assistant", "(Withheld.)")]
    assert withheld.opened_state.note is not None, "the next prompt says that it was withheld"
    turn = read_turn(withheld)
    assert (turn.status, turn.partial, turn.cut_line) == ("cancelled", None, None)


def test_reply_of_a_dropped_turn_can_be_withheld_and_stays_out_of_prompts() -> None:
    dropped = CLAIMED.apply_steps(CancelTurn(cut=CutReply("drop", "Hel")))
    withheld = dropped.apply_steps(RedactReply(1, "a secret", "operator", "(Withheld.)"))
    assert list_messages(withheld) == []
    assert withheld.opened_state.note is None
    assert find_shown(withheld) == ""


def test_kept_turn_far_back_stays_one_that_windows_may_include() -> None:
    cut = given(
        open_session(reach=1),
        submit_turn("Hi"),
        claim_turn(),
        CancelTurn(cut=SHOWN),
        *build_exchange("And?", "So."),
    )
    state = cut.opened_state
    run = next(each for each in state.earlier if each.first <= 1 <= each.last)
    assert (run.is_kept, run.is_usable) == (True, True)
    assert fold(cut.events) == state


def test_log_of_an_earlier_release_keeps_its_prompts() -> None:
    old = CLAIMED.append_events(TurnCancelled(turn=1, reason="cancelled"))
    assert list_messages(old) == []
