"""When a failed attempt at a model call is repeated: the delay before the next one, or None.

A provider error is classified in `worker.model.provider_errors`; only a retryable one gets here.
"""

from __future__ import annotations

from typing import Final, Protocol

from turnlog.projections.blueprint.schema.policy_specs import RetryPolicy


class RetryableFailure(Protocol):
    """A failure that says whether and when to try again."""

    @property
    def retryable(self) -> bool: ...

    @property
    def retry_after(self) -> float | None:
        """Seconds that the other side requests, if any."""
        ...


_MAX_DOUBLINGS: Final = 60
"""Beyond this any cap is reached, and a float is still finite."""


def compute_retry_delay(
    prior_attempts: int, failure: RetryableFailure, retries: RetryPolicy, jitter: float
) -> float | None:
    """Return the seconds until the next attempt; None to give up.

    The delay is `base * 2**prior_attempts + jitter`, with jitter in [0, 1), or longer if the
    provider asks for it, and never more than the cap.
    """
    if not failure.retryable or prior_attempts >= retries.max:
        return None
    backoff = retries.base_seconds * 2.0 ** min(prior_attempts, _MAX_DOUBLINGS) + jitter
    return min(max(backoff, failure.retry_after or 0.0), retries.cap_seconds)
