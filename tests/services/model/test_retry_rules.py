"""Whether and when the next attempt starts."""

from __future__ import annotations

from email.utils import formatdate
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as some

from turnlog.projections.blueprint.schema.policy_specs import RetryPolicy
from turnlog.projections.session.rules.retry_rules import compute_retry_delay
from turnlog.services.worker.model.model_types import RETRYABLE_CODES, FailureCode, ModelFailure
from turnlog.services.worker.model.provider_errors import parse_retry_after

CODES: tuple[FailureCode, ...] = get_args(FailureCode)

ATTEMPTS = some.integers(min_value=0, max_value=10_000)

SECONDS = some.floats(min_value=0, max_value=1e6)

JITTER = some.floats(min_value=0, max_value=1, exclude_max=True)


def build_policy(retries: int, base: float, cap: float) -> RetryPolicy:
    return RetryPolicy(max=retries, base_seconds=base, cap_seconds=cap)


@given(ATTEMPTS, some.sampled_from(sorted(RETRYABLE_CODES)), SECONDS, JITTER, SECONDS, SECONDS)
def test_retry_delay_doubles_between_retry_after_and_the_cap(
    attempt: int, code: FailureCode, base: float, jitter: float, cap: float, retry_after: float
) -> None:
    failure = ModelFailure(code, retry_after=retry_after)
    wait = compute_retry_delay(attempt, failure, build_policy(attempt + 1, base, cap), jitter)
    assert wait is not None
    assert 0 <= wait <= cap
    assert wait >= min(retry_after, cap)
    if attempt <= 60:
        assert wait == min(max(base * 2.0**attempt + jitter, retry_after), cap)


@given(ATTEMPTS, some.sampled_from(sorted(set(CODES) - RETRYABLE_CODES)), SECONDS, JITTER)
def test_permanent_failure_is_not_retried(
    attempt: int, code: FailureCode, base: float, jitter: float
) -> None:
    failure = ModelFailure(code, retry_after=1.0)
    assert (
        compute_retry_delay(attempt, failure, build_policy(attempt + 8, base, 60.0), jitter) is None
    )


@given(some.integers(min_value=1, max_value=20), JITTER)
def test_retries_stop_at_the_allowed_number_of_attempts(attempts: int, jitter: float) -> None:
    failure = ModelFailure("server_error")
    waits = [
        compute_retry_delay(attempt, failure, build_policy(attempts - 1, 1.0, 9.0), jitter)
        for attempt in range(attempts)
    ]
    assert [wait is None for wait in waits] == [False] * (attempts - 1) + [True]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-2"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_header_is_parsed_in_all_its_formats(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert parse_retry_after(headers, now=1_000_000.0) == seconds
