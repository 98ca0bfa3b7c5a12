"""Joins what several queries of one retrieval found into one ranking.

An entry counts by its best rank: what is first for one query comes before what is second for all.
Queries of one retrieval are about different things, so that agreement between them, which
reciprocal-rank fusion adds up, shows what is near to everything. It orders entries of equal rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from turnlog.events.model.retrieval_events import QueryRank
from turnlog.projections.knowledge.rank_fusion import RANK_CONSTANT, compute_fused_scores
from turnlog.projections.knowledge.search_port import KnowledgeHit

MAX_FUSED: Final = 48
"""The most hits that several queries give together."""

SCORE_DIGITS: Final = 4
"""Decimals of recorded scores; what is decided by a score is decided by the recorded one."""


@dataclass(frozen=True, slots=True)
class FusedHit:
    """A hit of one or several queries."""

    hit: KnowledgeHit
    """With the scores of the query nearest to it, and the score of its best rank."""
    score: float
    """What it is ranked by: the best score that a reranker gave it, or else the joined one."""
    found_by: tuple[QueryRank, ...] = ()
    """The queries that found it, nearest first; empty if there was only one query."""


def join_query_hits(
    found: Sequence[Sequence[KnowledgeHit]], scores: Sequence[Sequence[float]] | None = None
) -> tuple[FusedHit, ...]:
    """Join the hits of each query, best first; `scores` are those of a reranker."""
    if len(found) == 1:
        own = scores[0] if scores else [hit.fused_score for hit in found[0]]
        return tuple(FusedHit(hit, score) for hit, score in zip(found[0], own, strict=True))
    summed = compute_fused_scores(*([_get_name(hit) for hit in hits] for hits in found))
    joined = [_join_hit(name, found) for name in summed]
    if scores:
        best = _collect_best_scores(found, scores)
        joined = [replace(each, score=best[_get_name(each.hit)]) for each in joined]
    joined.sort(key=lambda each: _get_name(each.hit))
    joined.sort(key=lambda each: (each.score, summed[_get_name(each.hit)]), reverse=True)
    return tuple(joined[:MAX_FUSED])


def _join_hit(name: tuple[str, str], found: Sequence[Sequence[KnowledgeHit]]) -> FusedHit:
    ranks = _list_ranks(name, found)
    nearest = found[ranks[0].query - 1][ranks[0].rank - 1]
    score = 1 / (RANK_CONSTANT + min(each.rank for each in ranks))
    return FusedHit(replace(nearest, fused_score=score), score, ranks)


def _get_name(hit: KnowledgeHit) -> tuple[str, str]:
    return hit.collection, hit.entry_id


def _list_ranks(
    name: tuple[str, str], found: Sequence[Sequence[KnowledgeHit]]
) -> tuple[QueryRank, ...]:
    ranks = [
        QueryRank(query=query, rank=rank, confidence=round(hit.confidence, SCORE_DIGITS))
        for query, hits in enumerate(found, start=1)
        for rank, hit in enumerate(hits, start=1)
        if _get_name(hit) == name
    ]
    return tuple(sorted(ranks, key=lambda each: (-each.confidence, each.rank)))


def _collect_best_scores(
    found: Sequence[Sequence[KnowledgeHit]], scores: Sequence[Sequence[float]]
) -> dict[tuple[str, str], float]:
    best: dict[tuple[str, str], float] = {}
    for hits, own in zip(found, scores, strict=True):
        for hit, score in zip(hits, own, strict=True):
            name = _get_name(hit)
            best[name] = max(score, best.get(name, score))
    return best
