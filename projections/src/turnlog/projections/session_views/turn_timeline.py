"""Where the time of one turn went: its calls, attempts, tools and waits as spans on one scale.

The figures of calls and attempts are those of `call_times`, and that of a tool is what its worker
measured. A span adds where it lies: its end is the time of an event, and its begin is the end
without the measured length. Time that is in none of these figures is a span of its own, so that no
stretch of a turn is unexplained: in the queue, until a worker took the turn, preparing a call, and
waiting for a person. Such a span is the difference of the times of two events, and is never
negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted, find_attempt_end
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalRequested,
    ToolCalled,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.model.turn_events import TurnQueued, TurnReleased, TurnSubmitted, find_turn_end
from turnlog.projections.session_views.call_times import compute_call_times, compute_waiting_times

SpanKind = Literal[
    "queued", "unclaimed", "preparing", "call", "attempt", "waiting", "tool", "approval"
]
"""`queued`: behind an earlier turn. `unclaimed`: until a worker took it. `preparing`: from there,
or from the end of a tool or an approval, to the first request of a call. `call`: its attempts and
the waiting between them. `waiting`: before an attempt. `approval`: for a person.
"""

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSpan:
    """A stretch of a turn's time."""

    kind: SpanKind
    """What the time was spent on."""
    sequence: int
    """The sequence of the event that ended it, or that began it while it lasts."""
    offset_ms: int
    """Milliseconds from the begin of the turn to its begin."""
    length_ms: int | None
    """Milliseconds that it took; None while it lasts, and if nobody measured it."""
    call: str | None = None
    """The call; of a tool and an approval, the one whose answer asked for it."""
    name: str = ""
    """The tool; for an attempt its number, for an approval its number within the turn."""
    outcome: str | None = None
    """How it ended; None while it lasts."""
    fault: str | None = None
    """The code of the failure of an attempt."""
    step: int | None = None
    """The plan step of a tool."""


@dataclass(frozen=True, slots=True)
class TurnSpans:
    """A turn and its spans, by their begin."""

    turn: int
    begun_at: str
    """When it was submitted or queued."""
    length_ms: int | None
    """Milliseconds until it ended; None while it is open."""
    spans: tuple[TimelineSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpannedAttempt:
    """An attempt with its events."""

    started: RecordedEvent
    number: int
    call: str
    started_at: str
    ended: RecordedEvent | None = None
    ended_at: str | None = None
    total_ms: int | None = None

    @property
    def end(self) -> AttemptEnded | None:
        return find_attempt_end(self.ended.event) if self.ended else None


@dataclass(kw_only=True)
class _TurnEvents:
    """The events of a turn that determine its spans."""

    submitted: RecordedEvent
    opened: RecordedEvent
    queued: bool
    attempts: dict[int, _SpannedAttempt] = field(default_factory=dict[int, _SpannedAttempt])
    requested: dict[tuple[str, str], TimelineSpan] = field(
        default_factory=dict[tuple[str, str], TimelineSpan]
    )
    """The undecided approvals, by call and id of the tool request."""
    steps: dict[tuple[str, str], int | None] = field(
        default_factory=dict[tuple[str, str], int | None]
    )
    started: dict[tuple[str, str], RecordedEvent] = field(
        default_factory=dict[tuple[str, str], RecordedEvent]
    )
    """The tools that run."""
    spans: list[TimelineSpan] = field(default_factory=list[TimelineSpan])
    resting_points: list[datetime] = field(default_factory=list[datetime])
    """When the turn was opened, and when a tool returned or an approval was decided."""
    end: RecordedEvent | None = None

    @property
    def begun(self) -> datetime:
        return _read_time(self.submitted)


def collect_turn_spans(events: Iterable[RecordedEvent], turn: int) -> TurnSpans | None:
    """Return the spans of a turn from the session's events; None without its first event."""
    found: _TurnEvents | None = None
    for recorded in events:
        if getattr(recorded.event, "turn", None) != turn:
            continue
        if isinstance(recorded.event, TurnSubmitted | TurnQueued):
            queued = isinstance(recorded.event, TurnQueued)
            found = _TurnEvents(submitted=recorded, opened=recorded, queued=queued)
            found.resting_points.append(_read_time(recorded))
        elif found is not None:
            _apply_event(found, recorded)
    return None if found is None else _build_spans(found, turn)


def count_elapsed(found: TurnSpans, now: datetime) -> int:
    """Return the milliseconds from the begin of a turn to its end, or until now.

    Clocks may disagree, so it is at least the end of the last span.
    """
    if found.length_ms is not None:
        return found.length_ms
    ends = (span.offset_ms + (span.length_ms or 0) for span in found.spans)
    return max(_count_milliseconds(_parse_time(found.begun_at), now), *ends, 0)


def _apply_event(found: _TurnEvents, recorded: RecordedEvent) -> None:
    if found.end is None and find_turn_end(recorded.event) is not None:
        found.end = recorded
    at = recorded.envelope.time
    ended = find_attempt_end(recorded.event)
    if ended is not None and ended.attempt in found.attempts:
        total = ended.timings.total if ended.timings else None
        attempt = found.attempts[ended.attempt]
        found.attempts[ended.attempt] = replace(
            attempt, ended=recorded, ended_at=at, total_ms=total
        )
    match recorded.event:
        case TurnReleased():
            found.opened = recorded
            found.resting_points.append(_read_time(recorded))
        case AttemptStarted(call=call, attempt=number):
            found.attempts[number] = _SpannedAttempt(
                started=recorded, number=number, call=call, started_at=at
            )
        case ToolCalled(call=call, id=id_, step=step):
            found.steps[call, id_] = step
        case ToolStarted(call=call, id=id_):
            found.started[call, id_] = recorded
        case ToolReturned() as returned:
            found.spans.append(_build_tool_span(found, recorded, returned))
            found.resting_points.append(_read_time(recorded))
        case ApprovalRequested(call=call, id=id_) as asked:
            offset, name = _count_offset(found, recorded), str(asked.approval)
            span = TimelineSpan(
                kind="approval",
                sequence=recorded.sequence,
                offset_ms=offset,
                length_ms=None,
                call=call,
                name=name,
            )
            found.requested[call, id_] = span
        case ApprovalDecided() as decided if (decided.call, decided.id) in found.requested:
            span = found.requested.pop((decided.call, decided.id))
            length = _count_offset(found, recorded) - span.offset_ms
            outcome = _APPROVAL_OUTCOMES[decided.decision]
            found.spans.append(
                replace(span, sequence=recorded.sequence, length_ms=max(0, length), outcome=outcome)
            )
            found.resting_points.append(_read_time(recorded))
        case _:
            pass


_APPROVAL_OUTCOMES: Final = {"approve": "approved", "refuse": "refused"}


def _build_tool_span(
    found: _TurnEvents, recorded: RecordedEvent, returned: ToolReturned
) -> TimelineSpan:
    key = (returned.call, returned.id)
    found.started.pop(key, None)
    length = returned.milliseconds
    return TimelineSpan(
        kind="tool",
        sequence=recorded.sequence,
        offset_ms=max(0, _count_offset(found, recorded) - (length or 0)),
        length_ms=length,
        call=returned.call,
        name=returned.tool,
        outcome=returned.outcome,
        step=found.steps.get(key),
    )


def _build_spans(found: _TurnEvents, turn: int) -> TurnSpans:
    spans = [*found.spans, *_iterate_unfinished_spans(found), *_iterate_claim_spans(found)]
    calls = dict.fromkeys(each.call for each in found.attempts.values())
    for call in calls:
        attempts = [each for each in found.attempts.values() if each.call == call]
        spans.extend(_iterate_call_spans(found, call, attempts))
    order = sorted(spans, key=lambda span: (span.offset_ms, span.sequence))
    length = _count_offset(found, found.end) if found.end else None
    return TurnSpans(turn, found.submitted.envelope.time, length, tuple(order))


def _iterate_unfinished_spans(found: _TurnEvents) -> Iterator[TimelineSpan]:
    """Yield the approvals that a person has yet to decide, and the tools that run."""
    if found.end is not None:
        return
    yield from found.requested.values()
    for recorded in found.started.values():
        if isinstance(recorded.event, ToolStarted):
            event = recorded.event
            yield TimelineSpan(
                kind="tool",
                sequence=recorded.sequence,
                offset_ms=_count_offset(found, recorded),
                length_ms=None,
                call=event.call,
                name=event.tool,
                step=found.steps.get((event.call, event.id)),
            )


def _iterate_claim_spans(found: _TurnEvents) -> Iterator[TimelineSpan]:
    """Yield how long the turn was in the queue, and how long no worker had it."""
    opened = _count_offset(found, found.opened)
    if found.queued:
        is_released = found.opened is not found.submitted
        until = found.opened if is_released else found.end
        length = None if until is None else _count_offset(found, until)
        yield TimelineSpan(
            kind="queued",
            sequence=(until or found.submitted).sequence,
            offset_ms=0,
            length_ms=length,
        )
        if not is_released:
            return
    first = next(iter(found.attempts.values()), None)
    if first is None and found.end is None:
        yield TimelineSpan(
            kind="unclaimed", sequence=found.opened.sequence, offset_ms=opened, length_ms=None
        )
    elif first is not None:
        length = max(0, _count_offset(found, first.started) - opened)
        yield TimelineSpan(
            kind="unclaimed", sequence=first.started.sequence, offset_ms=opened, length_ms=length
        )


def _iterate_call_spans(
    found: _TurnEvents, call: str, attempts: Sequence[_SpannedAttempt]
) -> Iterator[TimelineSpan]:
    times = compute_call_times(attempts)
    first_request = _count_request(found, attempts[0])
    yield from _iterate_preparation(found, call, attempts[0], first_request)
    last = attempts[-1]
    outcome = last.end.outcome if last.end else None
    offset = _count_offset(found, attempts[0].started) if first_request is None else first_request
    sequence = (last.ended or last.started).sequence
    yield TimelineSpan(
        kind="call",
        sequence=sequence,
        offset_ms=offset,
        length_ms=times.total_ms,
        call=call,
        outcome=outcome,
    )
    for attempt, waited in zip(attempts, compute_waiting_times(attempts), strict=True):
        request = _count_request(found, attempt)
        end = attempt.end
        claimed = _count_offset(found, attempt.started)
        recorded = attempt.ended or attempt.started
        if waited and recorded is attempt.ended:
            until = _count_offset(found, recorded) - (attempt.total_ms or 0)
            yield TimelineSpan(
                kind="waiting",
                sequence=recorded.sequence,
                offset_ms=max(0, until - waited),
                length_ms=waited,
                call=call,
            )
        yield TimelineSpan(
            kind="attempt",
            sequence=recorded.sequence,
            offset_ms=claimed if request is None else request,
            length_ms=attempt.total_ms,
            call=call,
            name=str(attempt.number),
            outcome=end.outcome if end else None,
            fault=end.fault.code if end and end.fault else None,
        )


def _iterate_preparation(
    found: _TurnEvents, call: str, first: _SpannedAttempt, request: int | None
) -> Iterator[TimelineSpan]:
    """Yield the time from the claim, or from what the call waited for, to the first request."""
    if request is None:
        return
    at = found.begun + request * _MILLISECOND
    claimed = _parse_time(first.started_at)
    begun = max((each for each in (*found.resting_points, claimed) if each <= at), default=at)
    length = _count_milliseconds(begun, at)
    offset = _count_milliseconds(found.begun, begun)
    if length:
        yield TimelineSpan(
            kind="preparing",
            sequence=first.started.sequence,
            offset_ms=offset,
            length_ms=length,
            call=call,
        )


def _count_request(found: _TurnEvents, attempt: _SpannedAttempt) -> int | None:
    """Return the offset of the request of an attempt; None if it was not measured."""
    if attempt.ended is None or attempt.total_ms is None:
        return None
    return max(0, _count_offset(found, attempt.ended) - attempt.total_ms)


def _count_offset(found: _TurnEvents, recorded: RecordedEvent) -> int:
    return _count_milliseconds(found.begun, _read_time(recorded))


def _count_milliseconds(before: datetime, after: datetime) -> int:
    return max(0, round((after - before) / _MILLISECOND))


def _read_time(recorded: RecordedEvent) -> datetime:
    return _parse_time(recorded.envelope.time)


def _parse_time(time: str) -> datetime:
    return datetime.fromisoformat(time)
