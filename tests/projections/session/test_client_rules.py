from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from turnlog.events.content import PlainText
from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.session_events import SessionClosed, SessionOpened
from turnlog.events.model.turn_events import (
    TurnCancelled,
    TurnCompleted,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    Command,
    ExcludeTurn,
    RestoreTurn,
    SubmitTurn,
)
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.testing import (
    CommandOrFactory,
    SessionScenario,
    build_exchange,
    claim_turn,
    given,
    open_session,
    submit_turn,
)

REJECT = Policies(second_submit="reject")

INTERRUPT = Policies(second_submit="interrupt")

NARROW = Policies(queue_limit=1)

TALKED = given(open_session(), *build_exchange("Hi", "Hello"))

ASKED = given(open_session(), submit_turn("Hi"))

CLAIMED = given(open_session(), submit_turn("Hi"), claim_turn())

WAITING = given(open_session(), submit_turn("One"), submit_turn("Two"), submit_turn("Three"))

CLOSED = given(open_session(), *build_exchange("Hi", "Hello"), CloseSession("done"))

FAILED = given(
    open_session(),
    submit_turn("Hi"),
    TurnFailed(turn=1, code="deadline", detail="late", retryable=True),
)


def test_turn_without_text_is_refused() -> None:
    TALKED.when(SubmitTurn(text=None, policies=Policies())).then_refused(
        "text-missing", field="text"
    )


def build_system_turn(text: str | None = "Closed on Monday.") -> SubmitTurn:
    return SubmitTurn(text=text, policies=Policies(), role="system")


def test_system_turn_is_settled_when_recorded_and_does_not_count_as_an_exchange() -> None:
    TALKED.when(build_system_turn()).then(
        TurnSubmitted(turn=2, text=PlainText(text="Closed on Monday."), role="system"),
        TurnCompleted(turn=2, text=PlainText(text="")),
    )
    before, after = TALKED.opened_state, TALKED.apply_steps(build_system_turn()).opened_state
    assert (after.open, after.submitted) == (None, 2)
    assert (after.completed, after.exchanges) == (before.completed, before.exchanges)


@pytest.mark.parametrize("open_turn", [ASKED, CLAIMED, WAITING])
def test_system_turn_is_refused_while_a_turn_is_open(open_turn: SessionScenario) -> None:
    open_turn.when(build_system_turn()).then_refused("turn-open")


def test_system_turn_needs_text_and_has_no_reply_to_redact() -> None:
    for text in (None, ""):
        TALKED.when(build_system_turn(text)).then_refused("text-missing", field="text")
    noted = TALKED.apply_steps(build_system_turn())
    noted.when(build_redaction(2)).then_refused("no-reply", field="turn")
    noted.when(ExcludeTurn(2)).then(TurnExcluded(turn=2))
    withheld = noted.apply_steps(build_redaction(1)).opened_state
    assert withheld.note, "the reply before it is still the latest"


def build_redaction(turn: int = 1) -> RedactReply:
    return RedactReply(turn, "a secret", "operator", "(Withheld.)")


def build_lost_attempt(turn: int, attempt: int) -> AttemptEnded:
    return AttemptEnded(
        turn=turn,
        call=f"{turn}.1",
        attempt=attempt,
        outcome="lost",
        usage=TokenUsage(known="unknown"),
        cost=AttemptCost(price="unknown", table="none"),
    )


def test_session_opens_with_its_profile_attributes_and_reach() -> None:
    command = open_session(reach=7, language="French")
    given().when(command).then(
        SessionOpened(
            blueprint=command.blueprint,
            profile="chat",
            attributes={"language": "French"},
            reach=7,
        )
    )


def test_opening_an_open_session_is_refused() -> None:
    given(open_session()).when(open_session()).then_refused("session-exists", field="session")


@pytest.mark.parametrize(
    "command",
    [
        submit_turn("Hi"),
        CancelTurn(),
        CloseSession("done"),
        ExcludeTurn(1),
        RestoreTurn(1),
        build_redaction(),
    ],
    ids=lambda command: type(command).__name__,
)
def test_command_to_an_unknown_session_is_refused(command: CommandOrFactory) -> None:
    given().when(command).then_refused("unknown-session", field="session")


def test_first_turn_is_opened_immediately() -> None:
    given(open_session()).when(submit_turn("Hi")).then(
        TurnSubmitted(turn=1, text=PlainText(text="Hi"))
    )


def test_turn_is_recorded_with_its_inputs_references_and_meta() -> None:
    command = SubmitTurn(
        text="Hi",
        policies=Policies(),
        phases=None,
        inputs={"a": 1},
        references={"ticker": "X"},
        meta={"client": "web"},
    )
    given(open_session()).when(command).then(
        TurnSubmitted(
            turn=1,
            text=PlainText(text="Hi"),
            inputs={"a": 1},
            references={"ticker": "X"},
            meta={"client": "web"},
        )
    )


def test_next_turn_is_opened_immediately_after_the_last_one_is_answered() -> None:
    TALKED.when(submit_turn("More")).then(TurnSubmitted(turn=2, text=PlainText(text="More")))


def test_turn_numbers_are_never_reused() -> None:
    FAILED.when(submit_turn("More")).then(TurnSubmitted(turn=2, text=PlainText(text="More")))
    WAITING.apply_steps(CancelTurn(3)).when(submit_turn("Four")).then(
        TurnQueued(turn=4, text=PlainText(text="Four"))
    )


def test_submit_to_a_closed_session_is_refused() -> None:
    CLOSED.when(submit_turn("More")).then_refused("session-closed")


def test_second_submit_is_refused_under_policy_reject() -> None:
    ASKED.when(submit_turn("More", REJECT)).then_refused("turn-open")
    CLAIMED.when(submit_turn("More", REJECT)).then_refused("turn-open")


def test_second_submit_is_queued_under_policy_queue() -> None:
    ASKED.when(submit_turn("More")).then(TurnQueued(turn=2, text=PlainText(text="More")))


def test_submit_to_a_full_queue_is_refused() -> None:
    queued = ASKED.apply_steps(submit_turn("More", NARROW))
    queued.when(submit_turn("Again", NARROW)).then_refused("queue-full")


def test_second_submit_cancels_the_first_turn_under_policy_interrupt() -> None:
    ASKED.when(submit_turn("Stop", INTERRUPT)).then(
        TurnCancelled(turn=1, reason="interrupted"),
        TurnSubmitted(turn=2, text=PlainText(text="Stop")),
    )


def test_interrupted_attempt_is_recorded_as_lost_with_unknown_cost() -> None:
    CLAIMED.when(submit_turn("Stop", INTERRUPT)).then(
        build_lost_attempt(1, 1),
        TurnCancelled(turn=1, reason="interrupted"),
        TurnSubmitted(turn=2, text=PlainText(text="Stop")),
    )


@pytest.mark.parametrize("turn", [None, 1])
def test_cancelling_the_open_turn_releases_the_oldest_queued_one(turn: int | None) -> None:
    WAITING.when(CancelTurn(turn)).then(
        TurnCancelled(turn=1, reason="cancelled"), TurnReleased(turn=2)
    )


def test_cancelling_a_running_turn_ends_its_attempt() -> None:
    CLAIMED.when(CancelTurn()).then(
        build_lost_attempt(1, 1), TurnCancelled(turn=1, reason="cancelled")
    )


def test_cancelling_a_queued_turn_does_not_affect_the_open_one() -> None:
    WAITING.when(CancelTurn(3)).then(TurnCancelled(turn=3, reason="cancelled"))


@pytest.mark.parametrize("before", [TALKED, FAILED, CLOSED, WAITING.apply_steps(CancelTurn(1))])
def test_cancelling_a_settled_turn_is_refused(before: SessionScenario) -> None:
    before.when(CancelTurn(1)).then_refused("nothing-to-cancel", field="turn")


def test_cancelling_without_an_open_turn_is_refused() -> None:
    given(open_session()).when(CancelTurn()).then_refused("nothing-to-cancel", field="turn")


@pytest.mark.parametrize("turn", [-1, 0, 4, 10**9])
@pytest.mark.parametrize("build_command", [CancelTurn, ExcludeTurn, RestoreTurn, build_redaction])
def test_command_to_an_unknown_turn_is_refused(
    build_command: Callable[[int], Command], turn: int
) -> None:
    WAITING.when(build_command(turn)).then_refused("unknown-turn", field="turn")


def test_closing_cancels_the_open_turn_and_all_queued_ones() -> None:
    WAITING.apply_steps(claim_turn()).when(CloseSession("done")).then(
        build_lost_attempt(1, 1),
        TurnCancelled(turn=1, reason="closed"),
        TurnCancelled(turn=2, reason="closed"),
        TurnCancelled(turn=3, reason="closed"),
        SessionClosed(reason="done"),
    )


def test_closing_a_closed_session_records_nothing() -> None:
    TALKED.when(CloseSession("done")).then(SessionClosed(reason="done"))
    CLOSED.when(CloseSession("again")).then()


def test_repeated_exclusion_or_restoration_records_nothing() -> None:
    excluded = TALKED.when(ExcludeTurn(1)).then(TurnExcluded(turn=1))
    excluded.when(ExcludeTurn(1)).then()
    restored = excluded.when(RestoreTurn(1)).then(TurnRestored(turn=1))
    restored.when(RestoreTurn(1)).then()


def test_closed_session_still_accepts_exclusions_and_redactions() -> None:
    CLOSED.when(ExcludeTurn(1)).then(TurnExcluded(turn=1))
    CLOSED.when(build_redaction()).then_names("reply-redacted")


@pytest.mark.parametrize("command", [ExcludeTurn(1), RestoreTurn(1), build_redaction()])
def test_marking_an_open_turn_is_refused(command: CommandOrFactory) -> None:
    ASKED.when(command).then_refused("turn-open", field="turn")
    CLAIMED.when(command).then_refused("turn-open", field="turn")


@pytest.mark.parametrize("command", [ExcludeTurn(2), RestoreTurn(2), build_redaction(2)])
def test_marking_a_queued_turn_is_refused(command: CommandOrFactory) -> None:
    WAITING.when(command).then_refused("turn-open", field="turn")


@pytest.mark.parametrize("command", [ExcludeTurn(1), RestoreTurn(1)])
def test_turn_that_no_prompt_includes_can_neither_be_excluded_nor_restored(
    command: CommandOrFactory,
) -> None:
    ASKED.apply_steps(CancelTurn()).when(command).then_refused("no-reply", field="turn")


def test_redaction_is_recorded_with_its_reason() -> None:
    TALKED.when(build_redaction()).then(
        ReplyRedacted(
            turn=1, reason="a secret", rule="operator", replacement=PlainText(text="(Withheld.)")
        )
    )


def test_second_redaction_of_a_reply_is_refused() -> None:
    TALKED.apply_steps(build_redaction()).when(build_redaction()).then_refused("already-redacted")


def test_turns_stored_only_as_runs_follow_the_same_rules() -> None:
    session = given(
        open_session(reach=1), *build_exchange("Hi", "Hello"), *build_exchange("More", "No")
    )
    assert [run.first for run in session.opened_state.earlier] == [1]
    excluded = session.when(ExcludeTurn(1)).then(TurnExcluded(turn=1))
    excluded.when(ExcludeTurn(1)).then()
    session.apply_steps(build_redaction()).when(build_redaction()).then_refused("already-redacted")


def test_submit_after_the_deadline_of_the_open_turn_is_still_queued() -> None:
    late = ASKED.now + timedelta(days=9)
    ASKED.when(submit_turn("More"), at=late).then(TurnQueued(turn=2, text=PlainText(text="More")))
