"""What is left of a quota: tokens by month, requests by hour and day, and turns not settled yet."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from turnlog.events.codec import format_rfc3339
from turnlog.events.model.tenant.quota_events import (
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
    QuotaExceeded,
    TurnBound,
    find_refusal,
    format_period,
    list_limit_uses,
    release_turn,
    reserve_turn,
    settle_turn,
)

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
    event = reserve_turn(limits, balance, "ann", build_reservation(number, at), at)
    assert isinstance(event, QuotaReserved)
    return event.balance


def test_turns_that_are_not_settled_count_with_all_that_they_may_use() -> None:
    balance = reserve(reserve(QuotaBalance(), 1), 2)
    with pytest.raises(QuotaExceeded) as refused:
        reserve(balance, 3)
    use = refused.value.use
    assert (use.name, use.limit, use.used, use.reserved, use.left) == (
        "input_tokens",
        10_000,
        0,
        8_000,
        2_000,
    )
    assert use.resets_at == datetime(2026, 12, 1, tzinfo=UTC)
    assert refused.value.retry_after == 11.5 * 3_600


def test_a_settled_turn_counts_with_what_it_used_and_is_settled_once() -> None:
    settled = settle_turn(reserve(QuotaBalance(), 1), "ann", "r-1", TurnBound(812, 64))
    assert isinstance(settled, QuotaSettled)
    after = settled.balance
    assert (after.input_tokens, after.output_tokens, after.reservations) == (812, 64, ())
    assert settle_turn(after, "ann", "r-1", TurnBound(812, 64)) is None
    assert after.hour_requests == after.day_requests == 1


def test_a_released_turn_leaves_nothing_not_even_its_request() -> None:
    released = release_turn(reserve(QuotaBalance(), 1), "ann", "r-1")
    assert isinstance(released, QuotaReleased)
    after = released.balance
    assert (after.hour_requests, after.day_requests, after.reservations) == (0, 0, ())
    assert release_turn(after, "ann", "r-1") is None


def test_a_reservation_is_made_once_and_may_move_to_another_turn() -> None:
    balance = reserve(QuotaBalance(), 1)
    assert reserve_turn(LIMITS, balance, "ann", build_reservation(1), NOON) is None
    wanted = build_reservation(1).model_copy(update={"turn": 2})
    moved = reserve_turn(LIMITS, balance, "ann", wanted, NOON)
    assert isinstance(moved, QuotaReserved)
    assert moved.balance.reservations == (wanted,)
    assert moved.balance.hour_requests == 1


def test_requests_are_counted_by_clock_hour_and_by_day() -> None:
    limits = QuotaLimits(requests_per_hour=2, requests_per_day=3)
    balance = reserve(reserve(QuotaBalance(), 1, limits), 2, limits)
    refusal = find_refusal(limits, balance, TurnBound(), NOON)
    assert refusal is not None
    assert (refusal.use.name, refusal.use.resets_at) == (
        "requests_per_hour",
        datetime(2026, 11, 30, 13, tzinfo=UTC),
    )
    later = NOON.replace(hour=13, minute=0)
    balance = reserve(balance, 3, limits, later)
    assert (balance.hour_requests, balance.day_requests) == (1, 3)
    refusal = find_refusal(limits, balance, TurnBound(), later)
    assert refusal is not None
    assert refusal.use.name == "requests_per_day"
    tomorrow = datetime(2026, 12, 1, tzinfo=UTC)
    assert find_refusal(limits, balance, TurnBound(), tomorrow) is None


def test_a_clock_that_is_behind_opens_no_second_hour() -> None:
    limits = QuotaLimits(requests_per_hour=1)
    balance = reserve(QuotaBalance(), 1, limits, NOON.replace(hour=13))
    assert find_refusal(limits, balance, TurnBound(), NOON) is not None


def test_of_several_limits_the_one_that_resets_last_refuses() -> None:
    limits = QuotaLimits(input_tokens=1, requests_per_hour=0, requests_per_day=0)
    refusal = find_refusal(limits, QuotaBalance(), TurnBound(2, 0), NOON.replace(day=2))
    assert refusal is not None
    assert refusal.use.name == "input_tokens"


def test_no_limit_is_unlimited_and_input_and_output_are_limited_apart() -> None:
    heavy = TurnBound(10**9, 10**9)
    assert find_refusal(QuotaLimits(), QuotaBalance(), heavy, NOON) is None
    assert list_limit_uses(QuotaLimits(), QuotaBalance(), NOON) == []
    refusal = find_refusal(QuotaLimits(output_tokens=5), QuotaBalance(), heavy, NOON)
    assert refusal is not None
    assert refusal.use.name == "output_tokens"


def test_so_many_unsettled_turns_that_an_event_stays_small() -> None:
    balance = QuotaBalance(
        reservations=tuple(build_reservation(n) for n in range(MAX_UNSETTLED_TURNS))
    )
    refusal = find_refusal(QuotaLimits(requests_per_day=10**6), balance, TurnBound(), NOON)
    assert refusal is not None
    assert refusal.use.name == "unsettled_turns"
    assert len(balance.model_dump_json()) < 50_000


def test_a_balance_has_a_history_for_each_user_and_month_whatever_the_name_is() -> None:
    families = {
        build_balance_family(user, format_period(NOON)) for user in ("ann", "a.n*>", "ann b/é")
    }
    assert len(families) == 3
    assert all(LIBRARY_HISTORY.build_subject("t", each, "reserved") for each in families)


def test_a_child_of_an_allowed_turn_is_not_refused_and_is_no_request() -> None:
    limits = QuotaLimits(input_tokens=4_000, requests_per_hour=1)
    balance = reserve(QuotaBalance(), 1, limits)
    wanted = build_reservation(2).model_copy(update={"child": True})
    event = reserve_turn(limits, balance, "ann", wanted, NOON)
    assert isinstance(event, QuotaReserved)
    assert (len(event.balance.reservations), event.balance.hour_requests) == (2, 1)
    released = release_turn(event.balance, "ann", "r-2")
    assert isinstance(released, QuotaReleased)
    assert released.balance.hour_requests == 1
