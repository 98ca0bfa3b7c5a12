"""A knowledge search that finds the same hits for any query, with the scores they were given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.support.knowledge.memory_search import build_hit
from turnlog.events.errors import Refused, TurnlogError
from turnlog.events.model.knowledge_events import EntryKind
from turnlog.events.model.retrieval_events import CandidateVote
from turnlog.projections.knowledge.search_port import (
    IndexPositions,
    KnowledgeHit,
    SearchRequest,
    SearchResult,
)


def build_found(
    entry_id: str,
    text: str,
    confidence: float,
    *,
    collection: str = "champion",
    kind: EntryKind = "case",
    efficiency: float | None = None,
    feedback: int = 0,
    votes: tuple[CandidateVote, ...] = (),
) -> KnowledgeHit:
    """Return a hit whose joined score is its confidence; `feedback` is the sum of its votes."""
    hit = build_hit(
        entry_id,
        text,
        collection=collection,
        kind=kind,
        efficiency=efficiency,
        feedback=sum((each.vote for each in votes), feedback),
    )
    hit = replace(hit, votes=votes, vector_score=confidence)
    return replace(hit, fused_score=confidence, confidence=confidence)


@dataclass(slots=True)
class FixedSearch:
    """Finds all of its hits in the collections that exist, best first."""

    hits: Sequence[KnowledgeHit] = ()
    collections: frozenset[str] = frozenset({"champion", "knowledge"})
    failures: list[TurnlogError] = field(default_factory=list[TurnlogError])
    """Raised by the next searches, in order."""
    requests: list[SearchRequest] = field(default_factory=list[SearchRequest])
    """The searches so far."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """See `KnowledgeSearch`."""
        self.requests.append(request)
        if self.failures:
            raise self.failures.pop(0)
        if missing := sorted(set(request.collections) - self.collections):
            raise Refused("unknown-collection", f"there is no collection {missing[0]}")
        found = [hit for hit in self.hits if hit.collection in request.collections]
        found.sort(key=lambda hit: -hit.fused_score)
        return SearchResult(
            tuple(found[: request.limit]), "fixed-1", "given-1", IndexPositions(7, 9)
        )
