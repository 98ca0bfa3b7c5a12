from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import pytest

from turnlog.events.content import PlainText, compute_digest
from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptFault,
    AttemptStarted,
    ContextAssembled,
)
from turnlog.events.model.manifest import CounterRef, Manifest
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted
from turnlog.events.model.turn_events import ReplyAnswer, TurnCompleted, TurnFailed, TurnReleased
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import (
    AttemptRef,
    CancelTurn,
    ClaimTurn,
    CompleteTurn,
    EndAttempt,
    FixContext,
    SnapshotPrompts,
)
from turnlog.projections.session.rules.steps.outcome_rules import (
    BROKEN_REPLY_LINE,
    FAILED_TURN_LINE,
)
from turnlog.projections.testing import (
    DEFAULT_POLICIES,
    SAMPLE_SPENT,
    CommandOrFactory,
    claim_turn,
    complete_turn,
    given,
    open_session,
    submit_turn,
)

ASKED = given(open_session(), submit_turn("Hi"))

CLAIMED = given(open_session(), submit_turn("Hi"), claim_turn())

WAITING = given(open_session(), submit_turn("One"), submit_turn("Two"), claim_turn())

TAKEN_OVER = CLAIMED.apply_steps(claim_turn("w2"))

FIRST = AttemptRef(1, "1.1", 1)

SECOND = AttemptRef(1, "1.1", 2)

FILE = PromptFile(digest=compute_digest("Be kind."), path="persona.md")

LIMITED = AttemptFault(code="rate_limited", detail="too many requests", retryable=True)

MANIFEST = Manifest(
    kind="reply",
    at="2026-01-01T00:00:00Z",
    sequence=3,
    assembler=1,
    counter=CounterRef(name="chars/4", exact=False),
    tokens=0,
    parts=(),
    digest=compute_digest("request"),
)


def build_end_attempt(
    attempt: AttemptRef = FIRST,
    then: Literal["retry", "fail", "release"] = "fail",
    fault: AttemptFault | None = LIMITED,
) -> EndAttempt:
    return EndAttempt(
        attempt=attempt, outcome="failed", spent=SAMPLE_SPENT, then=then, fault=fault, partial="Hel"
    )


def build_attempt_ended(
    attempt: AttemptRef = FIRST, fault: AttemptFault | None = LIMITED
) -> AttemptEnded:
    return AttemptEnded(
        turn=attempt.turn,
        call=attempt.call,
        attempt=attempt.attempt,
        outcome="failed",
        usage=SAMPLE_SPENT.usage,
        cost=SAMPLE_SPENT.cost,
        timings=SAMPLE_SPENT.timings,
        fault=fault,
        partial=PlainText(text="Hel"),
    )


def build_lost_attempt(attempt: int, partial: str | None = None) -> AttemptEnded:
    return AttemptEnded(
        turn=1,
        call="1.1",
        attempt=attempt,
        outcome="lost",
        usage=TokenUsage(known="unknown"),
        cost=AttemptCost(price="unknown", table="none"),
        partial=None if partial is None else PlainText(text=partial),
    )


def build_started(attempt: int, worker: str) -> AttemptStarted:
    return AttemptStarted(turn=1, call="1.1", attempt=attempt, worker=worker)


def test_an_open_turn_is_claimed() -> None:
    ASKED.when(claim_turn("w1")).then(build_started(1, "w1"))


def test_claiming_a_running_turn_ends_its_previous_attempt() -> None:
    CLAIMED.when(claim_turn("w2")).then(build_lost_attempt(1), build_started(2, "w2"))


def test_partial_text_of_a_lost_attempt_is_recorded_with_its_loss() -> None:
    claim = ClaimTurn(1, "w2", DEFAULT_POLICIES, partial="Hel")
    CLAIMED.when(claim).then(build_lost_attempt(1, "Hel"), build_started(2, "w2"))


def test_claiming_a_turn_with_an_ended_attempt_does_not_end_it_again() -> None:
    CLAIMED.apply_steps(build_end_attempt(then="release")).when(claim_turn("w2")).then(
        build_started(2, "w2")
    )


@pytest.mark.parametrize("turn", [0, 2, 3, 9])
def test_claiming_a_turn_that_is_not_open_records_nothing(turn: int) -> None:
    WAITING.when(ClaimTurn(turn, "w2", DEFAULT_POLICIES)).then()


def test_claiming_a_settled_turn_records_nothing() -> None:
    CLAIMED.apply_steps(complete_turn("Hello")).when(ClaimTurn(1, "w2", DEFAULT_POLICIES)).then()
    CLAIMED.apply_steps(CancelTurn()).when(ClaimTurn(1, "w2", DEFAULT_POLICIES)).then()


def test_a_turn_past_its_deadline_fails_when_claimed() -> None:
    policies = Policies(deadline_seconds=10)
    submitted = ASKED.now - timedelta(seconds=1)
    soon, late = (submitted + timedelta(seconds=seconds) for seconds in (9.999, 10))
    ASKED.when(claim_turn("w1", policies), at=soon).then(build_started(1, "w1"))
    ASKED.when(claim_turn("w1", policies), at=late).then(build_turn_failed("deadline"))
    CLAIMED.when(claim_turn("w2", policies), at=late).then(
        build_lost_attempt(1), build_turn_failed("deadline")
    )


def build_turn_failed(code: str, shown: str = "") -> TurnFailed:
    details = {
        "deadline": "the turn was not answered in time",
        "claims-exhausted": "2 workers claimed the turn, none answered it",
        "rate_limited": "too many requests",
        "failed": "the attempt gave no answer",
    }
    line = BROKEN_REPLY_LINE if shown else FAILED_TURN_LINE
    return TurnFailed(
        turn=1,
        code=code,
        detail=details[code],
        retryable=True,
        cut_reply=PlainText(text=f"{shown}\n\n{line}" if shown else line),
        shown=len(shown),
    )


def test_the_deadline_of_a_queued_turn_runs_from_its_release() -> None:
    policies = Policies(deadline_seconds=10)
    released = WAITING.apply_steps(complete_turn("Hello"))
    assert released.opened_state.open is not None
    at = datetime.fromisoformat(released.opened_state.open.released_at)
    released.when(claim_turn("w1", policies), at=at + timedelta(seconds=9)).then_names(
        "attempt-started"
    )
    released.when(claim_turn("w1", policies), at=at + timedelta(seconds=10)).then_names(
        "turn-failed"
    )


def test_turn_fails_after_its_maximum_number_of_claims() -> None:
    policies = Policies(max_claims=2)
    twice = CLAIMED.apply_steps(claim_turn("w2", policies))
    twice.when(claim_turn("w3", policies)).then(
        build_lost_attempt(2), build_turn_failed("claims-exhausted")
    )


def test_failed_turn_releases_the_next_queued_one() -> None:
    late = WAITING.now + timedelta(days=1)
    WAITING.when(claim_turn("w2"), at=late).then(
        build_lost_attempt(1), build_turn_failed("deadline"), TurnReleased(turn=2)
    )
    WAITING.when(build_end_attempt()).then(
        build_attempt_ended(), build_turn_failed("rate_limited", "Hel"), TurnReleased(turn=2)
    )


def test_prompt_files_are_pinned_once_per_provider() -> None:
    pinned = CLAIMED.when(SnapshotPrompts(FIRST, "openai", {"persona": FILE})).then(
        PromptsSnapshotted(provider="openai", layers={"persona": FILE})
    )
    pinned.when(SnapshotPrompts(FIRST, "openai", {})).then()
    pinned.when(SnapshotPrompts(FIRST, "gemini", {})).then_names("prompts-snapshotted")


def test_assembled_context_is_recorded_with_its_manifest() -> None:
    CLAIMED.when(
        FixContext(attempt=FIRST, model="m", parameters={"temperature": 0}, manifest=MANIFEST)
    ).then(
        ContextAssembled(
            turn=1,
            call="1.1",
            model="m",
            parameters={"temperature": 0},
            manifest=MANIFEST,
            profile="chat",
        )
    )


def test_replacement_call_records_which_call_it_supersedes() -> None:
    fixed = CLAIMED.apply_steps(
        FixContext(attempt=FIRST, model="m", parameters={}, manifest=MANIFEST)
    )
    second = AttemptRef(1, "1.2", 1)
    after = fixed.when(
        FixContext(attempt=second, model="m", parameters={}, manifest=MANIFEST, supersedes="1.1")
    ).then(
        ContextAssembled(
            turn=1,
            call="1.2",
            model="m",
            parameters={},
            manifest=MANIFEST,
            supersedes="1.1",
            profile="chat",
        )
    )
    after.when(claim_turn("w2")).then_names("attempt-ended", "attempt-started")
    assert after.when(claim_turn("w2")).events[-1] == AttemptStarted(
        turn=1, call="1.2", attempt=2, worker="w2"
    )


def test_answer_ends_attempt_call_and_turn_in_one_event() -> None:
    CLAIMED.when(complete_turn("Hello", "length")).then(
        TurnCompleted(
            turn=1,
            call="1.1",
            text=PlainText(text="Hello"),
            finish="length",
            answer=ReplyAnswer(attempt=1, spent=SAMPLE_SPENT),
        ),
    )


def test_answer_releases_the_oldest_queued_turn() -> None:
    released = WAITING.apply_steps(submit_turn("Three")).when(complete_turn("Hello"))
    assert released.events[-1] == TurnReleased(turn=2)


@pytest.mark.parametrize(
    "command",
    [
        SnapshotPrompts(FIRST, "openai", {"persona": FILE}),
        FixContext(attempt=FIRST, model="m", parameters={}, manifest=MANIFEST),
    ],
    ids=lambda command: type(command).__name__,
)
def test_command_of_a_superseded_attempt_records_nothing(command: CommandOrFactory) -> None:
    TAKEN_OVER.when(command).then()


def test_late_answer_of_a_superseded_attempt_is_recorded_only_as_its_end() -> None:
    late = CompleteTurn(
        attempt=FIRST, text="Hello you.", finish="stop", spent=SAMPLE_SPENT, shown="Hello"
    )
    kept = AttemptEnded(
        turn=1,
        call="1.1",
        attempt=1,
        outcome="cancelled",
        usage=SAMPLE_SPENT.usage,
        cost=SAMPLE_SPENT.cost,
        timings=SAMPLE_SPENT.timings,
        partial=PlainText(text="Hello"),
    )
    TAKEN_OVER.when(late).then(kept)
    CLAIMED.apply_steps(CancelTurn()).when(late).then(kept)
    TAKEN_OVER.apply_steps(complete_turn("Hi there")).when(late).then(kept)


@pytest.mark.parametrize("then", ["retry", "fail", "release"])
def test_superseded_attempt_ends_only_itself(
    then: Literal["retry", "fail", "release"],
) -> None:
    TAKEN_OVER.when(build_end_attempt(then=then)).then(build_attempt_ended())
    WAITING.apply_steps(CancelTurn()).when(build_end_attempt(then=then)).then(build_attempt_ended())


def test_retried_attempt_starts_the_next_one_together_with_its_end() -> None:
    CLAIMED.when(build_end_attempt(then="retry")).then(
        build_attempt_ended(), build_started(2, "w1")
    )


def test_released_attempt_leaves_the_turn_open() -> None:
    handed_back = CLAIMED.when(build_end_attempt(then="release")).then(build_attempt_ended())
    assert handed_back.opened_state.open is not None
    assert not handed_back.opened_state.open.is_running


def test_failed_turn_records_the_fault_of_its_last_attempt() -> None:
    CLAIMED.when(build_end_attempt()).then(
        build_attempt_ended(), build_turn_failed("rate_limited", "Hel")
    )
    CLAIMED.when(build_end_attempt(fault=None)).then(
        build_attempt_ended(fault=None), build_turn_failed("failed", "Hel")
    )


def test_only_the_latest_attempt_can_answer_a_turn() -> None:
    answered = TAKEN_OVER.when(
        CompleteTurn(attempt=SECOND, text="Hello", finish="stop", spent=SAMPLE_SPENT)
    )
    answered.then_names("turn-completed")
