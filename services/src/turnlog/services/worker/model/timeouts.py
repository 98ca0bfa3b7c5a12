"""The timeouts of a call, and the timer that enforces them.

Four limits have different meanings: a provider that cannot be reached, one that has not begun to
answer, one that stalled in the middle of an answer, and one that never ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.services.worker.model.failures import FailureCode


@dataclass(frozen=True, slots=True)
class CallTimeouts:
    """The timeouts of a call, in seconds."""

    connect: float = 10.0
    first_token: float = 90.0
    """From the request to the first text, tool call or reasoning."""
    stalled: float = 45.0
    """Between two of those."""
    total: float = 600.0


@dataclass(frozen=True, slots=True)
class CallDeadline:
    """A time of the event loop, and the failure that reaching it means."""

    at: float
    code: FailureCode


def find_deadline(timeouts: CallTimeouts, *, began: float, token: float | None) -> CallDeadline:
    """Return the nearest deadline; `token` is when the last token came, None before the first."""
    total = CallDeadline(began + timeouts.total, "timeout_total")
    if token is None:
        silence = CallDeadline(began + timeouts.first_token, "timeout_first_token")
    else:
        silence = CallDeadline(token + timeouts.stalled, "timeout_stalled")
    return min(silence, total, key=lambda each: each.at)
