"""The end of a call as a part of a larger event says the same as the events of earlier releases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from turnlog.events.content import PlainText
from turnlog.events.log_token_join import ReplyRecord, apply_log_events
from turnlog.events.model.attempt_figures import AttemptUsage, SafetyRating
from turnlog.events.model.call_events import (
    AttemptEnded,
    CallCompleted,
    find_attempt_end,
    find_call_answer,
)
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.tool_events import ToolPin, ToolsSnapshotted
from turnlog.events.model.turn_events import ReplyAnswer, TurnCompleted
from turnlog.events.registry import KnownEvent
from turnlog.events.tokens import ToolRequest
from turnlog.projections.audit.verify.verification_report import compute_totals
from turnlog.projections.session.commands import AnswerCall, CompleteTurn
from turnlog.projections.session.open_turn import OpenTurn, WithheldAnswer
from turnlog.projections.session_views.session_history import build_history
from turnlog.projections.session_views.turn_timeline import collect_turn_spans
from turnlog.projections.session_views.withheld_events import RedactedTurns
from turnlog.projections.store.write.event_rows import build_changes
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    ScenarioStep,
    SessionScenario,
    claim_turn,
    complete_turn,
    get_attempt,
    given,
    open_session,
    submit_turn,
)

RAW = '{"answer": 7,}'

PLAIN: tuple[ScenarioStep, ...] = (submit_turn("Hi"), claim_turn(), complete_turn("Hello"))

REPAIRED: tuple[ScenarioStep, ...] = (
    submit_turn("How many?"),
    claim_turn(),
    lambda state: CompleteTurn(
        attempt=get_attempt(state),
        text='{"answer": 7}',
        finish="stop",
        spent=SAMPLE_SPENT,
        raw=RAW,
        repairs=("a comma",),
    ),
)

QUEUED: tuple[ScenarioStep, ...] = (
    submit_turn("One"),
    submit_turn("Two"),
    claim_turn(),
    complete_turn("First"),
    claim_turn("w2"),
)

TOOL_CALLED: tuple[ScenarioStep, ...] = (
    submit_turn("Look"),
    claim_turn(),
    lambda state: AnswerCall(
        attempt=get_attempt(state),
        text="I look.",
        finish="tool_calls",
        spent=SAMPLE_SPENT,
        tools=(ToolRequest(id="t1", tool="look", arguments="{}"),),
        offered_tools=("look",),
        max_tools=1,
    ),
)

DIGEST = "sha256:" + "7" * 64

PINNED = ToolsSnapshotted(
    profile="chat",
    digest=DIGEST,
    tools={"look": ToolPin(digest=DIGEST, server="shop", tool="look", approval=True)},
    full=DIGEST,
    names=DIGEST,
)

APPROVAL: tuple[ScenarioStep, ...] = (PINNED, *TOOL_CALLED)

WITHHELD: tuple[ScenarioStep, ...] = (
    submit_turn("Tell me"),
    claim_turn(),
    lambda state: CompleteTurn(
        attempt=get_attempt(state),
        text="a secret",
        finish="safety",
        spent=SAMPLE_SPENT,
        withheld=WithheldAnswer("a secret", "secrets", "(Withheld.)", DIGEST),
    ),
)

TURNS = {
    "a plain turn": (PLAIN, ("turn-completed",)),
    "a repaired reply": (REPAIRED, ("turn-completed",)),
    "another turn waits": (QUEUED, ("turn-completed", "turn-released")),
    "a tool is called": (TOOL_CALLED, ("call-completed", "tool-called", "attempt-started")),
    "a tool waits for a person": (
        APPROVAL,
        ("call-completed", "tool-called", "approval-requested"),
    ),
    "a withheld reply": (WITHHELD, ("call-completed", "reply-redacted")),
}

PARAMETERS = pytest.mark.parametrize("steps", [each[0] for each in TURNS.values()], ids=list(TURNS))


def write_ends_apart(session: SessionScenario) -> SessionScenario:
    """Return a session as earlier releases wrote it: with an event for each end."""
    written = SessionScenario()
    for recorded in session.events:
        assert isinstance(recorded.event, KnownEvent)
        written = written.append_events(*split_end(recorded.event))
    return written


def split_end(event: KnownEvent) -> Iterator[KnownEvent]:
    match event:
        case CallCompleted(spent=spent) if spent is not None:
            yield build_attempt_end(event.turn, event.call, event.attempt)
            yield event.model_copy(update={"spent": None})
        case TurnCompleted(answer=answer, call=str(call), text=PlainText(text=text)) if answer:
            yield build_attempt_end(event.turn, call, answer.attempt)
            whole = answer.text or PlainText(text=text)
            yield CallCompleted(
                turn=event.turn,
                call=call,
                attempt=answer.attempt,
                finish="stop",
                digest=whole.digest,
                characters=whole.characters,
                text=answer.text,
                repairs=answer.repairs,
            )
            yield event.model_copy(update={"answer": None})
        case _:
            yield event


def build_attempt_end(turn: int, call: str, attempt: int) -> AttemptEnded:
    return AttemptEnded(
        turn=turn,
        call=call,
        attempt=attempt,
        outcome="answered",
        usage=SAMPLE_SPENT.usage,
        cost=SAMPLE_SPENT.cost,
        timings=SAMPLE_SPENT.timings,
    )


@pytest.mark.parametrize(("steps", "names"), TURNS.values(), ids=list(TURNS))
def test_answer_is_recorded_in_the_fewest_possible_events(
    steps: tuple[ScenarioStep, ...], names: tuple[str, ...]
) -> None:
    *before, last = steps[:-1] if steps is QUEUED else steps
    assert not isinstance(last, KnownEvent)
    given(open_session(), *before).when(last).then_names(*names)  # type: ignore[arg-type]


@PARAMETERS
def test_state_equals_that_of_a_log_with_separate_end_events(
    steps: tuple[ScenarioStep, ...],
) -> None:
    session = given(open_session(), *steps)
    apart = write_ends_apart(session)
    assert len(apart.events) > len(session.events)
    assert describe_open_turn(session) == describe_open_turn(apart)
    assert describe_turns(session) == describe_turns(apart)


def describe_open_turn(session: SessionScenario) -> object:
    opened: OpenTurn | None = session.opened_state.open
    return opened and (
        *(opened.turn, opened.lease, opened.call),
        [answer.call for answer in opened.answers],
        [use.id for use in opened.tools],
    )


def describe_turns(session: SessionScenario) -> list[object]:
    return [
        (turn.turn, turn.status, turn.reply, turn.finish, turn.call, turn.redacted)
        for turn in build_history(session.events)
    ]


@PARAMETERS
def test_rows_and_totals_equal_those_of_a_log_with_separate_end_events(
    steps: tuple[ScenarioStep, ...],
) -> None:
    session = given(open_session(), *steps)
    apart = write_ends_apart(session)
    assert collect_figures(session) == collect_figures(apart)
    totals, totals_apart = (compute_totals(each.events) for each in (session, apart))
    assert totals.micro_dollars == totals_apart.micro_dollars == SAMPLE_SPENT.cost.micro_dollars
    assert totals.output_tokens == totals_apart.output_tokens
    assert totals.attempts == totals_apart.attempts


def collect_figures(session: SessionScenario) -> dict[object, object]:
    """Return the last value of each column that does not say when or where it was recorded."""
    found: dict[object, object] = {}
    for recorded in session.events:
        for change in build_changes(recorded):
            if change.table.name in {"attempts", "calls", "turns"}:
                for column, value in change.values.items():
                    if not column.endswith(("_at", "_in", "sequence")):
                        found[change.table.name, change.key, column] = value
    return found


def test_reply_event_carries_the_raw_answer_and_the_complete_usage() -> None:
    rating = SafetyRating(category="hate", probability="low", blocked=False)
    spent = SAMPLE_SPENT.model_copy(update={"response_id": "r-1", "ratings": (rating,)})
    raw, repairs = PlainText(text=RAW), ("a comma",)
    answer = ReplyAnswer(attempt=2, spent=spent, text=raw, repairs=repairs)
    reply = PlainText(text='{"answer": 7}')
    completed = TurnCompleted(turn=1, call="1.1", text=reply, finish="stop", answer=answer)
    answered = find_call_answer(completed)
    assert answered
    assert (answered.text, answered.digest, answered.repairs) == (raw, raw.digest, repairs)
    for event in (completed, answered):
        ended = find_attempt_end(event)
        assert ended
        fields = {name: getattr(ended, name) for name in AttemptUsage.model_fields}
        assert fields == dict(spent)


@PARAMETERS
def test_transcript_and_spans_equal_those_of_a_log_with_separate_end_events(
    steps: tuple[ScenarioStep, ...],
) -> None:
    session = given(open_session(), *steps)
    apart = write_ends_apart(session)
    assert describe_record(session) == describe_record(apart)
    assert list_attempt_spans(session) == list_attempt_spans(apart)


def describe_record(session: SessionScenario) -> object:
    record = apply_log_events(ReplyRecord(turn=1), session.events)
    answered = (record.attempt, record.call, record.is_answered, record.abandoned_attempt)
    return answered, type(record.end_event)


def list_attempt_spans(session: SessionScenario) -> list[object]:
    spans = collect_turn_spans(session.events, 1)
    assert spans
    return [
        (span.kind, span.call, span.name, span.outcome, span.length_ms)
        for span in spans.spans
        if span.kind in {"attempt", "call"}
    ]


def test_redaction_also_withholds_the_raw_answer_of_the_model() -> None:
    session = given(open_session(), *REPAIRED).append_events(
        ReplyRedacted(
            turn=1, reason="wrong", rule="operator", replacement=PlainText(text="(Withheld.)")
        )
    )
    redacted = RedactedTurns()
    redacted.apply_event(session.events[-1])
    stored = session.events[-2]
    shown = redacted.format_for_reader(stored)
    assert b"answer" in stored.stored
    assert RAW.replace('"', '\\"').encode() in stored.stored
    assert b"7" not in shown.partition(b'"data"')[2].replace(b'"1.1"', b"")
