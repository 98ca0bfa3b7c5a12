from __future__ import annotations

from turnlog.services.runtime.resolver import ResolverFailure
from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.tools.exchange import ToolServerFailure

_MAX_DOUBLINGS = 60
"""Beyond this any cap is reached, and a float is still finite."""


def compute_retry_delay(
    attempt: int,
    failure: ModelFailure | ResolverFailure | ToolServerFailure,
    *,
    base_seconds: float,
    jitter: float,
    cap: float,
    attempts: int,
) -> float | None:
    """Return the seconds to wait after the failure of `attempt`, counted from 0; None to give up.

    `base_seconds * 2**attempt + jitter`, with jitter in [0, 1), or longer if the provider asks for
    it, and never more than `cap`. `attempts` is the number of attempts allowed. The jitter is
    passed in, so that the function stays pure.
    """
    if not failure.retryable or attempt + 1 >= attempts:
        return None
    backoff = base_seconds * 2.0 ** min(attempt, _MAX_DOUBLINGS) + jitter
    return min(max(backoff, failure.retry_after or 0.0), cap)
