"""How long a call may take, in four parts.

They are told apart because they mean different things: a provider that cannot be reached, one that
is thinking, one that fell silent in the middle of a sentence, and one that never ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.services.worker.model.failures import FailureCode


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds."""

    connect: float = 10.0
    first_token: float = 90.0
    """From the request to the first text, tool call or reasoning."""
    stalled: float = 45.0
    """Between two of those."""
    total: float = 600.0


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the clock of the event loop, and what it means to reach it."""

    at: float
    code: FailureCode


def deadline(timeouts: Timeouts, *, began: float, token: float | None) -> Deadline:
    """The nearest deadline of a call; `token` is when its last token came, None before any."""
    total = Deadline(began + timeouts.total, "timeout_total")
    if token is None:
        silence = Deadline(began + timeouts.first_token, "timeout_first_token")
    else:
        silence = Deadline(token + timeouts.stalled, "timeout_stalled")
    return min(silence, total, key=lambda each: each.at)
