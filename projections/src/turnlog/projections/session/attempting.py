"""Commands: what callers and workers may request of a session.

A command carries everything its rule needs except the time. The rules are in
`turnlog.projections.session.rules`; `decide` picks the rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.call import AttemptCost, AttemptTimings, TokenUsage


@dataclass(frozen=True, slots=True)
class AttemptRef:
    """The claim a worker acts under.

    The claim is a lease, and `attempt` is its fencing token. A superseded attempt may still report
    what it cost, and nothing else.
    """

    turn: int
    call: str
    attempt: int


@dataclass(frozen=True, slots=True)
class AttemptUsage:
    """Usage, cost and timings of one attempt, whether its answer is used or not."""

    usage: TokenUsage
    cost: AttemptCost
    timings: AttemptTimings | None = None
