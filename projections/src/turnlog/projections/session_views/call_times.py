"""How long a call, its attempts and the waiting between them took, from the events of the log.

Everything that shows a duration of a call takes it from here, in whole milliseconds:

- An attempt lasts from the request to the model until its end, as its worker measured it with a
  clock that only goes forward. An attempt that nobody measured has no duration: its worker was
  lost, or it ended before a request was sent.
- The waiting before an attempt lasts from the end of the attempt before it until the request to the
  model: the delay before a retry, or the time until another worker took over. An attempt that
  nobody measured is waiting as a whole.
- A call lasts from its first request, or from the claim of a first attempt that nobody measured, to
  the end of its last attempt. It is the sum of its attempts and its waiting. What came before the
  first request is not in it: tools, resolver, assembling.

Waiting is computed from the times of events, and the clocks of several machines may disagree: a
waiting time that would be negative is zero. So it is where a worker was replaced and went on; its
attempt then counts for as long as it went on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

_MILLISECOND: Final = timedelta(milliseconds=1)


class TimedAttempt(Protocol):
    """An attempt: the times of its two events, and what its worker measured."""

    @property
    def started_at(self) -> str:
        """The time of the event that began it, RFC 3339."""
        ...

    @property
    def ended_at(self) -> str | None:
        """The time of the event that ended it; None while it runs."""
        ...

    @property
    def total_ms(self) -> int | None:
        """Milliseconds from the request to its end; None if they were not measured."""
        ...


@dataclass(frozen=True, slots=True)
class CallDurations:
    """How long a call took; null while it runs, and if none of its attempts was measured."""

    total_ms: int | None
    """Milliseconds from its first request to the end of its last attempt: the sum of the others."""
    attempts_ms: int | None
    """Milliseconds of all attempts together, each from its request to its end."""
    waiting_ms: int | None
    """Milliseconds between the attempts: delays before retries, and until a worker took over."""


UNKNOWN_TIMES: Final = CallDurations(None, None, None)


def compute_call_times(attempts: Sequence[TimedAttempt]) -> CallDurations:
    """Return the times of a call from all its attempts, in order."""
    measured = [each.total_ms for each in attempts if each.total_ms is not None]
    if not measured or any(each.ended_at is None for each in attempts):
        return UNKNOWN_TIMES
    waiting = sum(filter(None, compute_waiting_times(attempts)))
    return CallDurations(sum(measured) + waiting, sum(measured), waiting)


def compute_waiting_times(attempts: Sequence[TimedAttempt]) -> Iterator[int | None]:
    """Yield the milliseconds of waiting before the request of each attempt of a call, in order.

    None while an attempt runs, since its event says nothing of its request.
    """
    before: datetime | None = None
    for attempt in attempts:
        if attempt.ended_at is None:
            yield None
            continue
        ended = datetime.fromisoformat(attempt.ended_at)
        requested = ended - (attempt.total_ms or 0) * _MILLISECOND
        if before is None:
            is_measured = attempt.total_ms is not None
            before = requested if is_measured else datetime.fromisoformat(attempt.started_at)
        yield max(0, round((requested - before) / _MILLISECOND))
        before = ended
