"""When a request is sent again after a failure, and how long a client waits before it."""

from __future__ import annotations

from typing import Final

import httpx

from turnlog.client.request_errors import read_retry_after

MAX_TRIES: Final = 8
"""How often one request is sent by default before its error is raised."""


MAX_DELAY: Final = 10.0
"""Seconds to wait before another try, at most."""


MAX_RETRY_AFTER: Final = 60.0
"""Seconds after which the service may want a request again; a later one is the caller's."""


LASTING_STREAM: Final = 10.0
"""Seconds after which a stream has worked, though nothing happened on it."""


_BASE_DELAY: Final = 0.2


_RETRIED_STATUS: Final = frozenset({429, 502, 503, 504})


def compute_retry_delay(
    tries: int, response: httpx.Response | None, *, max_tries: int = MAX_TRIES
) -> float | None:
    """Return the seconds until a request is sent again; None if it is not sent again.

    `tries` counts the requests sent so far; `response` is None where none came. The service says
    itself how long to wait (`Retry-After`); where that is long, as it is for a quota that is used
    up, the refusal stands.
    """
    if tries >= max_tries or (response is not None and response.status_code not in _RETRIED_STATUS):
        return None
    requested = read_retry_after(response)
    delay = _BASE_DELAY * 2.0 ** (tries - 1) if requested is None else requested
    return min(delay, MAX_DELAY) if delay <= MAX_RETRY_AFTER else None
