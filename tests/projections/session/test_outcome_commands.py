"""Which command records how an attempt ended; without a worker, a model or a log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from turnlog.events.content import compute_digest
from turnlog.events.model.call_events import AttemptFault
from turnlog.events.tokens import ToolRequest
from turnlog.projections.session.commands import (
    AnswerCall,
    AttemptRef,
    CompleteTurn,
    EndAttempt,
    FallBack,
    GiveUpQueries,
    GiveUpSummary,
    RecordSummary,
)
from turnlog.projections.session.next_call import CallStage
from turnlog.projections.session.open_turn import WithheldAnswer
from turnlog.projections.session.rules.outcome_commands import (
    NOTHING_SPENT,
    OVERDUE_FAULT,
    STOPPED_FAULT,
    AnswerRefused,
    AttemptAnswer,
    AttemptFailed,
    AttemptOutcome,
    AttemptReleased,
    AttemptReport,
    TurnUnroutable,
    build_outcome_command,
)
from turnlog.projections.testing import SAMPLE_SPENT

ATTEMPT = AttemptRef(3, "3.1", 2)

REPORT = AttemptReport(
    attempt=ATTEMPT,
    stage="reply",
    spent=SAMPLE_SPENT,
    text="Hello there.",
    shown_text="Hello",
    model="scripted/m",
    max_tools=4,
    replacement="(withheld)",
)

ANSWER = AttemptAnswer(text="Hello there.", finish="stop")

FAULT = AttemptFault(code="server_error", detail="broken", retryable=True)

MODEL_OFF = AttemptFault(code="model_off", detail="no model", retryable=False)


def test_an_answer_completes_the_turn_and_keeps_the_original_text_only_if_it_was_repaired() -> None:
    assert build_outcome_command(REPORT, ANSWER) == CompleteTurn(
        attempt=ATTEMPT, text="Hello there.", finish="stop", spent=SAMPLE_SPENT, shown="Hello"
    )
    repaired = AttemptAnswer(text="{}", finish="stop", repairs=("fence removed",))
    command = build_outcome_command(replace(REPORT, text="```{}```"), repaired)
    assert isinstance(command, CompleteTurn)
    assert (command.text, command.raw, command.repairs) == ("{}", "```{}```", ("fence removed",))


@pytest.mark.parametrize(
    ("stage", "command"),
    [
        ("plan", AnswerCall),
        ("act", AnswerCall),
        ("query", AnswerCall),
        ("summarise", RecordSummary),
    ],
)
def test_an_answer_before_the_reply_continues_the_turn(stage: CallStage, command: type) -> None:
    assert isinstance(build_outcome_command(replace(REPORT, stage=stage), ANSWER), command)


def test_a_refused_reply_completes_the_turn_with_its_replacement() -> None:
    blob = compute_digest("Hello there.")
    command = build_outcome_command(REPORT, AnswerRefused("rude", "words", blob))
    assert isinstance(command, CompleteTurn)
    assert command.withheld == WithheldAnswer("rude", "words", "(withheld)", blob)
    assert command.finish == "safety"


@pytest.mark.parametrize(
    ("outcome", "then", "partial"),
    [
        (AttemptFailed(fault=FAULT, retry_in=1.0), "retry", "Hello"),
        (AttemptFailed(fault=FAULT), "fail", "Hello"),
        (AttemptFailed(fault=OVERDUE_FAULT), "fail", "Hello"),
        (AttemptFailed(fault=FAULT, allows_fallback=False, has_partial=False), "fail", ""),
        (AttemptReleased(), "release", "Hello"),
        (AttemptReleased(STOPPED_FAULT), "release", "Hello"),
    ],
)
def test_attempt_without_an_answer_ends_with_its_partial_text(
    outcome: AttemptOutcome, then: str, partial: str
) -> None:
    command = build_outcome_command(REPORT, outcome)
    assert isinstance(command, EndAttempt)
    assert (command.then, command.partial) == (then, partial)


def test_fallback_replaces_a_reply_only_if_no_retry_remains() -> None:
    report = replace(REPORT, fallback="Ask again later.")
    command = build_outcome_command(report, AttemptFailed(fault=FAULT))
    assert isinstance(command, FallBack)
    assert (command.text, command.fault, command.spent) == (
        "Ask again later.",
        FAULT,
        SAMPLE_SPENT,
    )
    for outcome in (
        AttemptFailed(fault=FAULT, retry_in=1.0),
        AttemptFailed(fault=FAULT, allows_fallback=False),
    ):
        assert isinstance(build_outcome_command(report, outcome), EndAttempt)


@pytest.mark.parametrize(
    ("outcome", "code", "text"),
    [
        (TurnUnroutable(), "unroutable", ""),
        (AttemptFailed(fault=MODEL_OFF), "model_off", "Instead."),
    ],
)
def test_reply_without_a_model_call_costs_nothing(
    outcome: AttemptOutcome, code: str, text: str
) -> None:
    command = build_outcome_command(replace(REPORT, fallback="Instead."), outcome)
    assert isinstance(command, FallBack)
    assert (command.code, command.text, command.fault) == (code, text, None)
    assert command.spent == NOTHING_SPENT


def test_tools_that_an_answer_with_queries_calls_are_not_recorded() -> None:
    answer = replace(ANSWER, tools=(ToolRequest(id="t", tool="shop_look", arguments="{}"),))
    command = build_outcome_command(replace(REPORT, stage="query"), answer)
    assert isinstance(command, AnswerCall)
    assert command.tools == ()


@pytest.mark.parametrize("stage", ["summarise", "query"])
def test_reasoning_before_a_refused_answer_is_not_recorded_either(stage: CallStage) -> None:
    report = replace(REPORT, stage=stage, reasoning='{"reasoning":"They are rude."}')
    refused = AnswerRefused("rude", "words", compute_digest("Hello there."))
    given_up = build_outcome_command(report, refused)
    assert isinstance(given_up, GiveUpSummary | GiveUpQueries)
    assert given_up.reasoning == ""
    completed = build_outcome_command(replace(report, stage="reply"), refused)
    assert isinstance(completed, CompleteTurn)
    assert completed.reasoning == ""


@pytest.mark.parametrize(
    ("stage", "give_up"), [("summarise", GiveUpSummary), ("query", GiveUpQueries)]
)
def test_call_that_a_turn_can_do_without_is_given_up_if_it_fails_or_a_rule_refuses_its_answer(
    stage: CallStage, give_up: type[GiveUpSummary | GiveUpQueries]
) -> None:
    report = replace(REPORT, stage=stage, fallback="Instead.")
    given_up = build_outcome_command(report, AttemptFailed(fault=FAULT, is_from_call=True))
    assert given_up == give_up(ATTEMPT, SAMPLE_SPENT, FAULT)
    refused = AnswerRefused("rude", "words", compute_digest("Hello there."))
    withheld = build_outcome_command(report, refused)
    assert isinstance(withheld, give_up)
    assert withheld.fault.code == "withheld"
    retried = build_outcome_command(report, AttemptFailed(fault=FAULT, retry_in=1.0))
    assert isinstance(retried, EndAttempt)
    assert retried.then == "retry"
