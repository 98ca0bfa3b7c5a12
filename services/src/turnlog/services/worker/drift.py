"""How far our count of prompts is off from the provider's: noted, warned about, never corrected.

What is recorded stays what was counted when it was decided by. Both counts are on the log; this
only tells an operator in time that a budget promises more, or less, than the model has room for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import structlog

from turnlog.events.manifest import Manifest

CALLS: Final = 20
"""Calls that are looked at together."""
TOLERATED: Final = 0.10
"""Share by which the counts may differ."""

_log = structlog.get_logger("turnlog.worker")


@dataclass(frozen=True, slots=True)
class Drift:
    """Counts of the latest calls, by model and by who counted."""

    _told: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """The factor that was warned of last; one where nothing was."""
    _seen: dict[tuple[str, str], deque[tuple[int, int]]] = field(
        default_factory=dict[tuple[str, str], deque[tuple[int, int]]]
    )

    def note(self, model: str, manifest: Manifest, reported: int) -> None:
        """Note what a provider counted; warns where that is off by too much, and once of it."""
        key = (model, manifest.counter.name)
        seen = self._seen.setdefault(key, deque(maxlen=CALLS))
        seen.append((manifest.tokens, reported))
        factor, told = self.factor(*key), self._told.get(key, 1)
        if len(seen) == CALLS and factor and abs(factor - told) > TOLERATED:
            self._told[key] = factor
            _log.warning(
                "counter-off",
                model=model,
                counter=manifest.counter.name,
                provider_counts=f"{factor:.2f} times as many",
                calls=CALLS,
            )

    def factor(self, model: str, counter: str) -> float | None:
        """Give how many times our count the provider's is; none where it was never told."""
        seen = self._seen.get((model, counter), ())
        counted = sum(ours for ours, _ in seen)
        return sum(theirs for _, theirs in seen) / counted if counted else None

    def overflow(self, model: str, manifest: Manifest) -> str:
        """Explain that a prompt within its budget was too long for its model."""
        counter, budget = manifest.counter.name, manifest.budget
        allowed = f"a budget of {budget}" if budget else "no budget"
        factor = self.factor(model, counter)
        told = f"; the provider counts {factor:.2f} times as many" if factor else ""
        return f"too long for {model}: {manifest.tokens} tokens by {counter}, {allowed}{told}"
