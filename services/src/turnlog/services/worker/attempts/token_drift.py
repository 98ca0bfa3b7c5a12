"""How far our token count of prompts is off from the provider's: logged, never corrected.

The recorded count stays the one that decisions were made with, and both counts are on the log. The
warning tells an operator early that a budget allows more or less than the model has room for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import structlog

from turnlog.events.model.manifest import Manifest

SAMPLED_CALLS: Final = 20
"""Number of calls that are compared together."""

TOLERANCE: Final = 0.10
"""Tolerated relative difference of the counts."""

_log = structlog.get_logger("turnlog.worker")


@dataclass(frozen=True, slots=True)
class TokenCountDrift:
    """The counts of the latest calls, by model and counter."""

    _warned_factors: dict[tuple[str, str], float] = field(
        default_factory=dict[tuple[str, str], float]
    )
    """The factor that was last warned of; 1 if none was."""
    _samples: dict[tuple[str, str], deque[tuple[int, int]]] = field(
        default_factory=dict[tuple[str, str], deque[tuple[int, int]]]
    )

    def record_count(self, model: str, manifest: Manifest, reported: int) -> None:
        """Record a provider's count, and warn once if it is off by too much."""
        key = (model, manifest.counter.name)
        seen = self._samples.setdefault(key, deque(maxlen=SAMPLED_CALLS))
        seen.append((manifest.tokens, reported))
        factor, warned_factor = self.compute_factor(*key), self._warned_factors.get(key, 1)
        if len(seen) == SAMPLED_CALLS and factor and abs(factor - warned_factor) > TOLERANCE:
            self._warned_factors[key] = factor
            _log.warning(
                "counter-off",
                model=model,
                counter=manifest.counter.name,
                provider_counts=f"{factor:.2f} times as many",
                calls=SAMPLED_CALLS,
            )

    def compute_factor(self, model: str, counter: str) -> float | None:
        """Return the provider's count divided by ours; None if the provider never reported one."""
        seen = self._samples.get((model, counter), ())
        counted = sum(own_count for own_count, _ in seen)
        return sum(provider_count for _, provider_count in seen) / counted if counted else None

    def explain_overflow(self, model: str, manifest: Manifest) -> str:
        """Explain that a prompt within its budget was too long for its model."""
        counter, budget = manifest.counter.name, manifest.budget
        allowed = f"a budget of {budget}" if budget else "no budget"
        factor = self.compute_factor(model, counter)
        factor_text = f"; the provider counts {factor:.2f} times as many" if factor else ""
        return (
            f"too long for {model}: {manifest.tokens} tokens by {counter}, {allowed}{factor_text}"
        )
