"""Reciprocal-rank fusion of two rankings (Cormack, Clarke and Buettcher, 2009).

Scores of different kinds are not comparable, but ranks are: an entry gets 1 / (60 + rank) from each
ranking that has it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, TypeVar

RANK_CONSTANT: Final = 60
"""The constant of the paper: how much the first ranks differ from later ones."""

Ranked = TypeVar("Ranked", bound=Hashable)


def compute_fused_scores(*rankings: Sequence[Ranked]) -> dict[Ranked, float]:
    """Return the score of each item that any ranking has, best first rankings."""
    scores: dict[Ranked, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + 1 / (RANK_CONSTANT + rank)
    return scores
