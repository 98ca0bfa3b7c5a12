"""Requests by key and tenant: a burst passes, then as many as time allows."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from turnlog.services.identity.principals import Principal
from turnlog.services.identity.rate_limits import (
    BodyBudget,
    BodyRates,
    RateLimits,
    RequestRates,
    TooManyRequests,
)


class StandingClock:
    """A clock that stands until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def create_sender(key: str, tenant: str = "travel") -> Principal:
    return Principal(tenant=tenant, key_id=key, sign_in="key")


def send(limits: RateLimits, sender: Principal, *, is_stream: bool = False) -> None:
    with limits.limit_request(sender, is_stream=is_stream):
        pass


def test_a_burst_passes_and_then_as_many_as_time_allows() -> None:
    clock = StandingClock()
    limits = RateLimits(keys=RequestRates(2.0, clock))
    for _ in range(20):
        send(limits, create_sender("a"))
    with pytest.raises(TooManyRequests) as refused:
        send(limits, create_sender("a"))
    assert refused.value.retry_after == pytest.approx(0.5)
    send(limits, create_sender("b"))
    clock.now = 0.5
    send(limits, create_sender("a"))
    with pytest.raises(TooManyRequests):
        send(limits, create_sender("a"))
    clock.now = 1_000.0
    for _ in range(20):
        send(limits, create_sender("a"))
    with pytest.raises(TooManyRequests):
        send(limits, create_sender("a"))


def test_a_tenant_has_a_limit_for_all_its_keys_and_no_other_tenant_is_held() -> None:
    limits = RateLimits(tenants=RequestRates(1.0, StandingClock()))
    for number in range(10):
        send(limits, create_sender(str(number)))
    with pytest.raises(TooManyRequests, match="the tenant"):
        send(limits, create_sender("another"))
    send(limits, create_sender("a", "review"))


def test_streams_of_a_key_count_while_they_are_open() -> None:
    limits = RateLimits(streams=2)
    with ExitStack() as opened:
        for _ in range(2):
            opened.enter_context(limits.limit_request(create_sender("a"), is_stream=True))
        with pytest.raises(TooManyRequests, match="2 streams"):
            send(limits, create_sender("a"), is_stream=True)
        send(limits, create_sender("a"))
        send(limits, create_sender("b"), is_stream=True)
    send(limits, create_sender("a"), is_stream=True)


def test_senders_that_were_quiet_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnlog.services.identity.rate_limits.MAX_BUCKETS", 2)
    rates = RequestRates(0.1, StandingClock())
    for name in ("a", "b", "c"):
        assert rates.count_request(name) == 0
    assert rates.count_request("a") == 0  # as one that was never seen
    assert rates.count_request("c") > 0


def create_budget(limits: RateLimits, key: str, own: int | None = None) -> BodyBudget:
    return limits.create_body_budget(create_sender(key), own)


def test_stated_bodies_are_refused_before_they_are_sent_and_wait_for_their_room() -> None:
    clock = StandingClock()
    limits = RateLimits(key_bytes=600, bodies=BodyRates(clock))
    create_budget(limits, "a").reserve_bytes(500)
    with pytest.raises(TooManyRequests) as refused:
        create_budget(limits, "a").reserve_bytes(200)
    assert refused.value.retry_after == pytest.approx(10.0)
    create_budget(limits, "a").reserve_bytes(100)
    create_budget(limits, "b").reserve_bytes(600)
    clock.now = 20.0
    create_budget(limits, "a").reserve_bytes(200)
    with pytest.raises(TooManyRequests):
        create_budget(limits, "a").reserve_bytes(1)


def test_unstated_bodies_are_counted_as_they_come() -> None:
    clock = StandingClock()
    limits = RateLimits(key_bytes=600, bodies=BodyRates(clock))
    budget = create_budget(limits, "a")
    budget.reserve_bytes(0)
    for _ in range(6):
        budget.count_piece(100)
    with pytest.raises(TooManyRequests):
        budget.count_piece(1)
    budget.release_rest()
    clock.now = 30.0
    create_budget(limits, "a").reserve_bytes(300)


def test_a_body_beyond_a_minute_is_taken_when_none_is_used_and_owed() -> None:
    clock = StandingClock()
    limits = RateLimits(key_bytes=600, bodies=BodyRates(clock))
    budget = create_budget(limits, "a")
    budget.reserve_bytes(1_200)
    for _ in range(4):
        budget.count_piece(300)
    budget.release_rest()
    with pytest.raises(TooManyRequests) as refused:
        create_budget(limits, "a").reserve_bytes(60)
    assert refused.value.retry_after == pytest.approx(66.0)


def test_bytes_that_are_stated_and_never_come_are_given_back() -> None:
    clock = StandingClock()
    limits = RateLimits(tenant_bytes=600, tenants_bodies=BodyRates(clock))
    lying = create_budget(limits, "a")
    lying.reserve_bytes(10**15)
    with pytest.raises(TooManyRequests) as refused:
        create_budget(limits, "b").reserve_bytes(600)
    assert refused.value.retry_after == pytest.approx(60.0)
    lying.count_piece(10)
    lying.release_rest()
    create_budget(limits, "b").reserve_bytes(590)
    with pytest.raises(TooManyRequests, match="the tenant"):
        create_budget(limits, "b").reserve_bytes(1)


def test_settings_of_a_tenant_go_before_those_of_the_gateway() -> None:
    clock = StandingClock()
    limits = RateLimits(tenant_bytes=600, tenants_bodies=BodyRates(clock))
    create_budget(limits, "a", own=100).reserve_bytes(100)
    with pytest.raises(TooManyRequests):
        create_budget(limits, "b", own=100).reserve_bytes(1)
    RateLimits().create_body_budget(create_sender("a"), None).reserve_bytes(10**12)
