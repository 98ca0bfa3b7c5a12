"""A knowledge search over a list, for tests of what is done with hits and not of finding them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from turnlog.events.content import compute_digest
from turnlog.events.errors import Unavailable
from turnlog.events.model.knowledge_events import EntryKind
from turnlog.projections.knowledge.search_port import (
    IndexPositions,
    KnowledgeHit,
    SearchRequest,
    SearchResult,
)


def build_hit(
    entry_id: str,
    text: str,
    *,
    collection: str = "cases",
    kind: EntryKind = "case",
    efficiency: float | None = None,
    feedback: int = 0,
) -> KnowledgeHit:
    """Return an entry as a hit whose scores a search sets."""
    return KnowledgeHit(
        collection=collection,
        entry_id=entry_id,
        revision=1,
        kind=kind,
        title=entry_id,
        text=text,
        digest=compute_digest(text),
        efficiency=efficiency,
        feedback=feedback,
        lexical_score=None,
        vector_score=None,
        fused_score=0.0,
        confidence=0.0,
    )


@dataclass(slots=True)
class MemorySearch:
    """Scores an entry by the share of the query's words that it contains."""

    entries: Sequence[KnowledgeHit]
    positions: IndexPositions = field(default_factory=IndexPositions)
    requests: list[SearchRequest] = field(default_factory=list[SearchRequest])
    """The searches so far."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """See `KnowledgeSearch`."""
        self.requests.append(request)
        wanted, reached = request.min_positions, self.positions
        if wanted.knowledge > reached.knowledge or wanted.votes > reached.votes:
            raise Unavailable("knowledge-index", "it is behind")
        hits = [_score(each, request.text) for each in self.entries if _is_sought(each, request)]
        found = sorted(
            (each for each in hits if each.fused_score),
            key=lambda each: (-each.fused_score, each.collection, each.entry_id),
        )
        return SearchResult(tuple(found[: request.limit]), "memory-1", "words-1", reached)


def _is_sought(hit: KnowledgeHit, request: SearchRequest) -> bool:
    if hit.collection not in request.collections or (
        request.kinds and hit.kind not in request.kinds
    ):
        return False
    if request.exclude_negative and hit.feedback < 0:
        return False
    if request.min_efficiency is None or hit.kind == "document":
        return True
    return hit.efficiency is not None and hit.efficiency >= request.min_efficiency


def _score(hit: KnowledgeHit, query: str) -> KnowledgeHit:
    words = set(re.findall(r"\w+", query.casefold()))
    found = words & set(re.findall(r"\w+", f"{hit.title} {hit.text}".casefold()))
    share = len(found) / len(words) if words else 0.0
    return replace(
        hit,
        lexical_score=share or None,
        vector_score=share or None,
        fused_score=share,
        confidence=share,
    )
