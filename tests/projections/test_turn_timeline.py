"""Where the time of a turn went: its spans, from the events of the turn alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from turnlog.events.codec import format_rfc3339
from turnlog.events.content import PlainText
from turnlog.events.envelope import Envelope, RecordedEvent
from turnlog.events.model.attempt_figures import AttemptCost, AttemptTimings, TokenUsage
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptFault,
    AttemptResult,
    AttemptStarted,
)
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalRequested,
    ToolCalled,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.model.turn_events import (
    TurnCancelled,
    TurnCompleted,
    TurnQueued,
    TurnReleased,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.projections.session_views.turn_timeline import (
    TimelineSpan,
    TurnSpans,
    collect_turn_spans,
    count_elapsed,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

Moment = tuple[float, KnownEvent]
"""Seconds after noon, and the event."""

UNPAID: dict[str, Any] = {
    "usage": TokenUsage(known="unknown"),
    "cost": AttemptCost(price="unknown", table="none"),
}


def read_spans(*moments: Moment, turn: int = 1) -> TurnSpans:
    found = collect_turn_spans(list(record_moments(moments)), turn)
    assert found is not None
    return found


def record_moments(moments: Sequence[Moment]) -> Sequence[RecordedEvent]:
    return [
        RecordedEvent(build_envelope(sequence, seconds, event), event, sequence, b"")
        for sequence, (seconds, event) in enumerate(moments, 1)
    ]


def build_envelope(sequence: int, seconds: float, event: KnownEvent) -> Envelope:
    return Envelope(
        id=f"e{sequence}",
        source="/test",
        type=event.type,
        subject="s",
        time=format_time(seconds),
        tenant="t",
        sequence=sequence,
        actor="client",
        data={},
    )


def format_time(seconds: float) -> str:
    return format_rfc3339(NOON + timedelta(seconds=seconds))


def submit(seconds: float = 0.0) -> Moment:
    return seconds, TurnSubmitted(turn=1, text=PlainText(text="Hi"))


def claim(seconds: float, attempt: int, call: str = "1.1") -> Moment:
    return seconds, AttemptStarted(turn=1, call=call, attempt=attempt, worker="w")


def end(
    seconds: float,
    attempt: int,
    total_ms: int | None,
    outcome: AttemptResult = "answered",
    call: str = "1.1",
) -> Moment:
    fault = AttemptFault(code="rate_limited", detail="429", retryable=True)
    return seconds, AttemptEnded(
        turn=1,
        call=call,
        attempt=attempt,
        outcome=outcome,
        timings=None if total_ms is None else AttemptTimings(total=total_ms),
        fault=fault if outcome == "failed" else None,
        **UNPAID,
    )


def complete(seconds: float) -> Moment:
    return seconds, TurnCompleted(turn=1, text=PlainText(text="Done."), finish="stop")


def describe(found: TurnSpans) -> list[tuple[str, str, int, int | None]]:
    return [(span.kind, span.name, span.offset_ms, span.length_ms) for span in found.spans]


def test_spans_cover_a_turn_from_its_submission_to_its_end() -> None:
    found = read_spans(submit(), claim(0.2, 1), end(3, 1, 2_000), complete(3.01))
    assert (found.begun_at, found.length_ms) == (format_time(0), 3_010)
    assert describe(found) == [
        ("unclaimed", "", 0, 200),
        ("preparing", "", 200, 800),
        ("call", "", 1_000, 2_000),
        ("attempt", "1", 1_000, 2_000),
    ]


def test_spans_of_a_retried_call_agree_with_its_call_times() -> None:
    moments = [
        *(submit(), claim(0, 1), end(1, 1, 500, "failed")),
        *(claim(1, 2), end(5, 2, None, "lost"), claim(5, 3), end(8, 3, 2_500), complete(8)),
    ]
    found = read_spans(*moments)
    attempts = [span for span in found.spans if span.kind == "attempt"]
    assert [(span.outcome, span.fault, span.length_ms) for span in attempts] == [
        ("failed", "rate_limited", 500),
        ("lost", None, None),
        ("answered", None, 2_500),
    ]
    waiting = [span for span in found.spans if span.kind == "waiting"]
    assert [(span.offset_ms, span.length_ms) for span in waiting] == [(1_000, 4_000), (5_000, 500)]
    (call,) = (span for span in found.spans if span.kind == "call")
    assert (call.offset_ms, call.length_ms) == (500, 7_500)
    parts = sum(span.length_ms or 0 for span in (*attempts, *waiting))
    assert call.length_ms == parts


def test_tool_and_approval_spans_belong_to_the_call_that_requested_them() -> None:
    look: dict[str, Any] = {"turn": 1, "call": "1.1", "id": "t1", "tool": "look"}
    pay: dict[str, Any] = {"turn": 1, "call": "1.1", "id": "t2", "tool": "pay"}
    found = read_spans(
        *(submit(), claim(0, 1), end(1, 1, 1_000)),
        (1, ToolCalled(**look, arguments="{}", step=2)),
        (1, ToolCalled(**pay, arguments="{}")),
        (1, ApprovalRequested(**pay, approval=1, deadline=format_time(99))),
        (61, ApprovalDecided(**pay, approval=1, decision="approve")),
        *(claim(61.5, 2, "1.2"), (62, ToolStarted(**look, attempt=2))),
        (64, ToolReturned(**look, outcome="answered", milliseconds=1_900)),
        (64.5, ToolReturned(**pay, outcome="refused", detail="no")),
        *(end(66, 2, 1_000, call="1.2"), complete(66)),
    )
    (approval,) = (span for span in found.spans if span.kind == "approval")
    assert approval == TimelineSpan(
        kind="approval",
        sequence=7,
        offset_ms=1_000,
        length_ms=60_000,
        call="1.1",
        name="1",
        outcome="approved",
    )
    tools = [span for span in found.spans if span.kind == "tool"]
    assert tools == [
        TimelineSpan(
            kind="tool",
            sequence=10,
            offset_ms=62_100,
            length_ms=1_900,
            call="1.1",
            name="look",
            outcome="answered",
            step=2,
        ),
        TimelineSpan(
            kind="tool",
            sequence=11,
            offset_ms=64_500,
            length_ms=None,
            call="1.1",
            name="pay",
            outcome="refused",
        ),
    ]
    # The next call was prepared once the last tool had returned.
    assert ("preparing", "", 64_500, 500) in describe(found)


def test_unfinished_span_has_no_length() -> None:
    pay: dict[str, Any] = {"turn": 1, "call": "1.1", "id": "t2", "tool": "pay"}
    waiting = [
        *(submit(), claim(0, 1), end(1, 1, 1_000)),
        (1, ToolCalled(**pay, arguments="{}")),
        (1, ApprovalRequested(**pay, approval=1, deadline=format_time(99))),
    ]
    found = read_spans(*waiting)
    assert found.length_ms is None
    assert describe(found)[-1] == ("approval", "1", 1_000, None)
    assert count_elapsed(found, NOON + timedelta(seconds=30)) == 30_000
    # A clock that is behind the log ends nothing before its last span does.
    assert count_elapsed(found, NOON) == 1_000
    running = [*waiting[:4], claim(2, 2, "1.2"), (3, ToolStarted(**pay, attempt=2))]
    assert ("tool", "pay", 3_000, None) in describe(read_spans(*running))
    assert ("attempt", "2", 2_000, None) in describe(read_spans(*running))
    given_up = read_spans(*running, (4, TurnCancelled(turn=1, reason="cancelled")))
    assert given_up.length_ms == 4_000
    assert "tool" not in [span.kind for span in given_up.spans]


def test_a_queued_turn_waits_for_the_turn_before_it() -> None:
    queued = (0.0, TurnQueued(turn=1, text=PlainText(text="Hi")))
    assert describe(read_spans(queued)) == [("queued", "", 0, None)]
    found = read_spans(queued, (5, TurnReleased(turn=1)), claim(5.5, 1))
    assert describe(found)[:2] == [("queued", "", 0, 5_000), ("unclaimed", "", 5_000, 500)]
    cancelled = read_spans(queued, (4, TurnCancelled(turn=1, reason="closed")))
    assert describe(cancelled) == [("queued", "", 0, 4_000)]


def test_clock_skew_yields_no_negative_spans() -> None:
    found = read_spans(submit(10), claim(2, 1), end(4, 1, 3_000), complete(4))
    assert all(span.offset_ms >= 0 and (span.length_ms or 0) >= 0 for span in found.spans)
    assert found.length_ms == 0


def test_a_turn_without_its_first_event_has_no_spans() -> None:
    assert collect_turn_spans(record_moments([claim(0, 1)]), 1) is None
    assert collect_turn_spans(record_moments([submit()]), 2) is None
