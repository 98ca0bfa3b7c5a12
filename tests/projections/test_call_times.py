"""The times of a call: attempts, the waiting between them, and both together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.codec import format_rfc3339
from turnlog.projections.session_views.call_times import (
    CallDurations,
    compute_call_times,
    compute_waiting_times,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Attempt:
    started_at: str
    ended_at: str | None
    total_ms: int | None


def build_attempt(started: float, ended: float | None, total_ms: int | None) -> Attempt:
    """Build an attempt from the seconds of its events after noon."""
    return Attempt(build_time(started), None if ended is None else build_time(ended), total_ms)


def build_time(seconds: float) -> str:
    return format_rfc3339(NOON + timedelta(seconds=seconds))


def test_call_with_one_attempt_lasts_from_its_request_to_its_end() -> None:
    # It was claimed four seconds before its tools had run and its request was sent.
    attempts = [build_attempt(0, 6, 2_000)]
    assert compute_call_times(attempts) == CallDurations(2_000, 2_000, 0)


def test_retry_delay_counts_as_waiting_time_of_the_call() -> None:
    # The second attempt begins on the log when the first one ends, and then waits.
    attempts = [build_attempt(0, 1, 500), build_attempt(1, 5, 1_200)]
    assert compute_call_times(attempts) == CallDurations(4_500, 1_700, 2_800)
    assert list(compute_waiting_times(attempts)) == [0, 2_800]


def test_unmeasured_attempt_of_a_lost_worker_counts_as_waiting_time() -> None:
    attempts = [build_attempt(0, 30, None), build_attempt(30, 33, 2_500)]
    assert list(compute_waiting_times(attempts)) == [30_000, 500]
    assert compute_call_times(attempts) == CallDurations(33_000, 2_500, 30_500)
    lost_last = [build_attempt(0, 1, 500), build_attempt(1, 9, None)]
    assert compute_call_times(lost_last) == CallDurations(8_500, 500, 8_000)


def test_running_or_unmeasured_call_has_no_times() -> None:
    running = [build_attempt(0, 1, 500), build_attempt(1, None, None)]
    assert list(compute_waiting_times(running)) == [0, None]
    for attempts in (running, [build_attempt(0, 30, None)], []):
        assert compute_call_times(attempts) == CallDurations(None, None, None)


def test_clock_skew_yields_no_negative_times() -> None:
    behind = [build_attempt(0, 1, 500), build_attempt(-3_600, -3_598, 1_500)]
    assert compute_call_times(behind) == CallDurations(2_000, 2_000, 0)


SECONDS = st.floats(-100, 100)


@given(
    st.lists(
        st.builds(build_attempt, SECONDS, SECONDS, st.none() | st.integers(0, 90_000)), max_size=4
    )
)
def test_times_add_up_and_are_never_negative_under_any_clock_skew(
    attempts: list[Attempt],
) -> None:
    times, waits = compute_call_times(attempts), list(compute_waiting_times(attempts))
    assert len(waits) == len(attempts)
    assert all(wait is not None and wait >= 0 for wait in waits)
    if times.total_ms is not None:
        assert times.attempts_ms == sum(each.total_ms or 0 for each in attempts)
        assert times.waiting_ms == sum(wait or 0 for wait in waits)
        assert times.total_ms == (times.attempts_ms or 0) + (times.waiting_ms or 0)
