"""What is left of a quota: tokens by month, requests by hour and day, and turns not settled yet."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from turnlog.events.codec import format_rfc3339
from turnlog.events.model.quota_events import (
    QuotaBalance,
    QuotaLimits,
    QuotaReleased,
    QuotaReservation,
    QuotaReserved,
    QuotaSettled,
    build_balance_family,
)
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.quotas.quota_decisions import (
    MAX_UNSETTLED_TURNS,
    OPEN_TURN_DELAY,
    QuotaExceeded,
    find_refusal,
    find_used_up_tokens,
    format_period,
    list_limit_uses,
    pause_turn,
    release_turn,
    reserve_turn,
    resume_turn,
    settle_turn,
)
from turnlog.projections.quotas.turn_bound import TurnBound

NOON = datetime(2026, 11, 30, 12, 30, tzinfo=UTC)

LIMITS = QuotaLimits(input_tokens=10_000, output_tokens=2_000)


def build_reservation(
    number: int = 1, at: datetime = NOON, input_tokens: int = 4_000
) -> QuotaReservation:
    return QuotaReservation(
        id=f"r-{number}",
        session="s",
        turn=number,
        after=1,
        at=format_rfc3339(at),
        input_tokens=input_tokens,
        output_tokens=500,
    )


def reserve(
    balance: QuotaBalance, number: int, limits: QuotaLimits = LIMITS, at: datetime = NOON
) -> QuotaBalance:
    event = reserve_turn(
        limits=limits, balance=balance, user="ann", wanted=build_reservation(number, at), at=at
    )
    assert isinstance(event, QuotaReserved)
    return event.balance


def test_turn_is_allowed_while_quota_is_left_even_if_its_reservation_exceeds_it() -> None:
    balance = reserve(reserve(reserve(QuotaBalance(), 1), 2), 3)
    (use, _) = list_limit_uses(LIMITS, balance, NOON)
    assert (use.name, use.limit, use.used, use.reserved, use.left) == (
        "input_tokens",
        10_000,
        0,
        12_000,
        0,
    )
    with pytest.raises(QuotaExceeded):
        reserve(balance, 4)


def test_unsettled_turns_count_with_their_complete_reservation() -> None:
    balance = reserve(reserve(QuotaBalance(), 1), 2)
    assert find_refusal(QuotaLimits(input_tokens=8_000), balance, NOON) is not None
    assert find_refusal(QuotaLimits(input_tokens=8_001), balance, NOON) is None


@pytest.mark.parametrize("limit", ["input_tokens", "output_tokens"])
def test_limit_of_zero_refuses_every_turn(limit: str) -> None:
    refusal = find_refusal(QuotaLimits.model_validate({limit: 0}), QuotaBalance(), NOON)
    assert refusal is not None
    assert refusal.use.name == limit


def test_refusal_reports_the_usage_and_when_the_limit_resets() -> None:
    spent = QuotaBalance(input_tokens=10_250)
    refusal = find_refusal(LIMITS, spent, NOON)
    assert refusal is not None
    assert refusal.detail == (
        "nothing is left of 10,000 input tokens per month: 10,250 used; "
        "the limit resets at 2026-12-01T00:00:00Z"
    )
    assert refusal.fix == "wait until 2026-12-01T00:00:00Z, or have the limit raised"
    assert refusal.retry_after == 11.5 * 3_600
    once = QuotaLimits(requests_per_hour=1)
    refusal = find_refusal(once, reserve(QuotaBalance(), 1, once), NOON)
    assert refusal is not None
    assert refusal.detail == (
        "nothing is left of 1 request per hour: 1 used; the limit resets at 2026-11-30T13:00:00Z"
    )


def test_refusal_due_to_reservations_advises_to_wait_for_a_turn_not_for_the_month() -> None:
    limits = QuotaLimits(input_tokens=4_000)
    refusal = find_refusal(limits, reserve(QuotaBalance(input_tokens=9), 1, limits), NOON)
    assert refusal is not None
    assert "9 used, 4,000 reserved by turns that are not settled" in refusal.detail
    assert refusal.fix == "wait until a turn of the user is settled, or have the limit raised"
    assert refusal.retry_after == OPEN_TURN_DELAY.total_seconds()


def test_settled_turn_counts_with_its_actual_usage_and_is_settled_once() -> None:
    settled = settle_turn(reserve(QuotaBalance(), 1), "ann", "r-1", TurnBound(812, 64))
    assert isinstance(settled, QuotaSettled)
    after = settled.balance
    assert (after.input_tokens, after.output_tokens, after.reservations) == (812, 64, ())
    assert settle_turn(after, "ann", "r-1", TurnBound(812, 64)) is None
    assert after.hour_requests == after.day_requests == 1


def test_released_turn_frees_its_reservation_and_its_request() -> None:
    released = release_turn(reserve(QuotaBalance(), 1), "ann", "r-1")
    assert isinstance(released, QuotaReleased)
    after = released.balance
    assert (after.hour_requests, after.day_requests, after.reservations) == (0, 0, ())
    assert release_turn(after, "ann", "r-1") is None


def test_reservation_is_recorded_once_and_may_move_to_another_turn() -> None:
    balance = reserve(QuotaBalance(), 1)
    assert (
        reserve_turn(
            limits=LIMITS, balance=balance, user="ann", wanted=build_reservation(1), at=NOON
        )
        is None
    )
    wanted = build_reservation(1).model_copy(update={"turn": 2})
    moved = reserve_turn(limits=LIMITS, balance=balance, user="ann", wanted=wanted, at=NOON)
    assert isinstance(moved, QuotaReserved)
    assert moved.balance.reservations == (wanted,)
    assert moved.balance.hour_requests == 1


def test_requests_are_counted_by_clock_hour_and_by_day() -> None:
    limits = QuotaLimits(requests_per_hour=2, requests_per_day=3)
    balance = reserve(reserve(QuotaBalance(), 1, limits), 2, limits)
    refusal = find_refusal(limits, balance, NOON)
    assert refusal is not None
    assert (refusal.use.name, refusal.use.resets_at) == (
        "requests_per_hour",
        datetime(2026, 11, 30, 13, tzinfo=UTC),
    )
    later = NOON.replace(hour=13, minute=0)
    balance = reserve(balance, 3, limits, later)
    assert (balance.hour_requests, balance.day_requests) == (1, 3)
    refusal = find_refusal(limits, balance, later)
    assert refusal is not None
    assert refusal.use.name == "requests_per_day"
    tomorrow = datetime(2026, 12, 1, tzinfo=UTC)
    assert find_refusal(limits, balance, tomorrow) is None


def test_clock_that_is_behind_does_not_reset_the_hourly_limit() -> None:
    limits = QuotaLimits(requests_per_hour=1)
    balance = reserve(QuotaBalance(), 1, limits, NOON.replace(hour=13))
    assert find_refusal(limits, balance, NOON) is not None


def test_refusal_names_the_exceeded_limit_that_resets_last() -> None:
    limits = QuotaLimits(input_tokens=4_000, output_tokens=0, requests_per_day=0)
    refusal = find_refusal(limits, QuotaBalance(), NOON.replace(day=2))
    assert refusal is not None
    assert refusal.use.name == "output_tokens"
    # An open turn has reserved all input tokens, but is over before the hour is.
    limits = QuotaLimits(input_tokens=4_000, requests_per_hour=1)
    refusal = find_refusal(limits, reserve(QuotaBalance(), 1, limits), NOON)
    assert refusal is not None
    assert refusal.use.name == "requests_per_hour"


def test_missing_limit_is_unlimited_and_input_and_output_are_limited_separately() -> None:
    spent = QuotaBalance(input_tokens=10**9, output_tokens=5)
    assert find_refusal(QuotaLimits(), spent, NOON) is None
    assert list_limit_uses(QuotaLimits(), spent, NOON) == []
    refusal = find_refusal(QuotaLimits(output_tokens=5), spent, NOON)
    assert refusal is not None
    assert refusal.use.name == "output_tokens"


def test_number_of_unsettled_turns_is_limited_to_bound_the_event_size() -> None:
    balance = QuotaBalance(
        reservations=tuple(build_reservation(n) for n in range(MAX_UNSETTLED_TURNS))
    )
    refusal = find_refusal(QuotaLimits(requests_per_day=10**6), balance, NOON)
    assert refusal is not None
    assert refusal.use.name == "unsettled_turns"
    assert refusal.detail == "200 turns of the user are not settled yet, and no more may be"
    assert len(balance.model_dump_json()) < 50_000


def test_each_user_and_month_has_its_own_balance_family_for_any_user_name() -> None:
    families = {
        build_balance_family(user, format_period(NOON)) for user in ("ann", "a.n*>", "ann b/é")
    }
    assert len(families) == 3
    assert all(LIBRARY_HISTORY.build_subject("t", each, "reserved") for each in families)


def test_child_of_an_allowed_turn_is_not_refused_and_does_not_count_as_a_request() -> None:
    limits = QuotaLimits(input_tokens=4_000, requests_per_hour=1)
    balance = reserve(QuotaBalance(), 1, limits)
    wanted = build_reservation(2).model_copy(update={"child": True})
    event = reserve_turn(limits=limits, balance=balance, user="ann", wanted=wanted, at=NOON)
    assert isinstance(event, QuotaReserved)
    assert (len(event.balance.reservations), event.balance.hour_requests) == (2, 1)
    released = release_turn(event.balance, "ann", "r-2")
    assert isinstance(released, QuotaReleased)
    assert released.balance.hour_requests == 1


def test_waiting_turn_keeps_what_it_used_and_reserves_all_again_when_it_goes_on() -> None:
    balance = reserve(reserve(QuotaBalance(), 1), 2)
    paused = pause_turn(balance, "ann", "r-1", TurnBound(70, 8))
    assert isinstance(paused, QuotaReserved)
    (other, held) = paused.balance.reservations
    assert (other.id, held.input_tokens, held.output_tokens) == ("r-2", 70, 8)
    assert pause_turn(paused.balance, "ann", "r-1", TurnBound(90, 9)) is None
    assert paused.balance.hour_requests == 2
    resumed = resume_turn(paused.balance, "ann", "r-1")
    assert isinstance(resumed, QuotaReserved)
    assert resumed.reservation == build_reservation(1)
    assert resume_turn(resumed.balance, "ann", "r-1") is None
    assert resume_turn(resumed.balance, "ann", "r-9") is None


def test_waiting_turn_goes_on_while_tokens_are_only_reserved_and_not_when_they_are_used_up() -> (
    None
):
    busy = reserve(reserve(QuotaBalance(), 1), 2)
    assert find_used_up_tokens(QuotaLimits(input_tokens=5_000), busy, NOON) is None
    assert find_used_up_tokens(QuotaLimits(requests_per_hour=1), busy, NOON) is None
    spent = QuotaBalance(input_tokens=5_000)
    refusal = find_used_up_tokens(QuotaLimits(input_tokens=5_000), spent, NOON)
    assert refusal is not None
    assert refusal.code == "quota-exceeded"
