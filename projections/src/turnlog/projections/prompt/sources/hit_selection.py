"""Which hits of a search a turn takes, and why the others are left out.

The hits are ranked first. Then they are gone through in this order: what a setting forbids is left
out, and the rest is taken until there are enough, or until one has no room within the token limit.
Nothing after that one is taken, even if it is shorter: no worse entry replaces a better one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from turnlog.events.content import is_keyed
from turnlog.events.model.retrieval_events import (
    CandidateOutcome,
    RetrievalCandidate,
    RetrievalLimits,
)
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import ResolvedRetrieval
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.knowledge.query_fusion import SCORE_DIGITS, FusedHit
from turnlog.projections.knowledge.search_port import KnowledgeHit
from turnlog.projections.prompt.sources.retrieved_layers import format_entry_heading


def build_limits(settings: ResolvedRetrieval, counting: TokenCounter) -> RetrievalLimits:
    """Return the settings as a retrieval records them."""
    return RetrievalLimits(
        k=settings.most_taken,
        tokens=settings.tokens,
        counter=counting.counter.name if settings.tokens else "",
        min_score=settings.min_score,
        min_efficiency=settings.min_efficiency,
        feedback=settings.feedback,
        confident_above=settings.confident_above,
    )


def select_hits(
    hits: Sequence[FusedHit], limits: RetrievalLimits, counting: TokenCounter
) -> tuple[RetrievalCandidate, ...]:
    """Return every hit with its outcome, ranked by its score; equal ones stay in their order."""
    ranked = sorted(hits, key=lambda each: -round(each.score, SCORE_DIGITS))
    candidates = [_build_candidate(each, limits) for each in ranked]
    texts = [each.hit.text for each in ranked]
    taken = _take_candidates(candidates, texts, limits, counting.count_tokens)
    return tuple(map(_leave_title, taken))


def _leave_title(candidate: RetrievalCandidate) -> RetrievalCandidate:
    """Return a candidate without its title where it is of a sealed library and was not taken.

    The retrieval is under the keys of all that was taken, and of nothing else.
    """
    if candidate.outcome == "taken" or not is_keyed(candidate.digest):
        return candidate
    return candidate.model_copy(update={"title": ""})


def _build_candidate(found: FusedHit, limits: RetrievalLimits) -> RetrievalCandidate:
    hit = found.hit
    return RetrievalCandidate(
        collection=hit.collection,
        entry=hit.entry_id,
        revision=hit.revision,
        kind=hit.kind,
        title=hit.title,
        digest=hit.digest,
        characters=len(hit.text),
        efficiency=hit.efficiency,
        feedback=hit.feedback,
        lexical=_round(hit.lexical_score),
        vector=_round(hit.vector_score),
        fused=round(hit.fused_score, SCORE_DIGITS),
        score=round(found.score, SCORE_DIGITS),
        confidence=round(hit.confidence, SCORE_DIGITS),
        outcome=_find_exclusion(hit, limits) or "taken",
        found_by=found.found_by,
        votes=hit.votes,
        more_votes=hit.more_votes,
    )


def _round(score: float | None) -> float | None:
    return None if score is None else round(score, SCORE_DIGITS)


def _find_exclusion(hit: KnowledgeHit, limits: RetrievalLimits) -> CandidateOutcome | None:
    """Return by which setting a hit is left out, or None."""
    if limits.min_score is not None and round(hit.confidence, SCORE_DIGITS) < limits.min_score:
        return "score"
    least = limits.min_efficiency
    if least is not None and hit.efficiency is not None and hit.efficiency < least:
        return "efficiency"
    if limits.feedback == "not_negative" and hit.feedback < 0:
        return "feedback"
    return None


def _take_candidates(
    candidates: Iterable[RetrievalCandidate],
    texts: Iterable[str],
    limits: RetrievalLimits,
    count_tokens: Callable[[str], int],
) -> Iterable[RetrievalCandidate]:
    taken = tokens = 0
    is_full = False
    for candidate, text in zip(candidates, texts, strict=True):
        if candidate.outcome != "taken":
            yield candidate
        elif taken == limits.k:
            yield candidate.model_copy(update={"outcome": "rank"})
        else:
            name = f"{candidate.collection}/{candidate.entry}"
            heading = format_entry_heading(taken + 1, candidate.title, name)
            size = count_tokens(f"{heading}\n{text}\n\n") if limits.tokens else 0
            is_full = is_full or (limits.tokens is not None and tokens + size > limits.tokens)
            outcome: CandidateOutcome = "tokens" if is_full else "taken"
            yield candidate.model_copy(update={"outcome": outcome, "tokens": size})
            taken, tokens = (taken, tokens) if is_full else (taken + 1, tokens + size)
