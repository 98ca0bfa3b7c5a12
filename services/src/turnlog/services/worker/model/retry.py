"""How long to wait before the next attempt, if there is to be one.

Pure: the chance in it is handed in, so that a recorded decision can be had again.
"""

from __future__ import annotations

from turnlog.services.runtime.resolver import ResolverFailure
from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.tools.exchange import ServerFailure

_DOUBLINGS = 60
"""Past this any cap has long been reached, and a float is still finite."""


def delay(
    attempt: int,
    failure: ModelFailure | ResolverFailure | ServerFailure,
    *,
    base_seconds: float,
    jitter: float,
    cap: float,
    attempts: int,
) -> float | None:
    """Seconds to wait after the failure of `attempt`, counted from 0; None to give up.

    `base_seconds * 2**attempt + jitter`, jitter in [0, 1), or longer when the provider asks for
    it; never more than `cap`. `attempts` is how many may be made in all.
    """
    if not failure.retryable or attempt + 1 >= attempts:
        return None
    backoff = base_seconds * 2.0 ** min(attempt, _DOUBLINGS) + jitter
    return min(max(backoff, failure.retry_after or 0.0), cap)
