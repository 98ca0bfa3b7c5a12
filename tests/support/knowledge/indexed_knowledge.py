"""Knowledge with its index on a database: commands, the projector and the search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.knowledge.knowledge_harness import KnowledgeHarness
from turnlog.projections.knowledge.search_port import (
    IndexPositions,
    KnowledgeHit,
    SearchRequest,
    SearchResult,
)
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.knowledge.embedders import CheckedEmbedder
from turnlog.services.knowledge.index_service import IndexedKnowledge
from turnlog.services.projector.knowledge_projector import KnowledgeProjector

SHIPPED_EMBEDDER = CheckedEmbedder()
"""The default one, whose weights a process loads once."""


@dataclass
class IndexHarness:
    """The knowledge of a tenant and the index of all tenants."""

    store: ReadModelStore
    knowledge: KnowledgeHarness = field(default_factory=KnowledgeHarness)
    embedder: CheckedEmbedder = field(default_factory=lambda: SHIPPED_EMBEDDER)

    def __post_init__(self) -> None:
        self.signal = ProjectionSignal()
        self.searching = IndexedKnowledge(
            store=self.store, signal=self.signal, embedder=self.embedder, position_timeout=60
        )

    def build_projector(self) -> KnowledgeProjector:
        """Build a projector of this index."""
        return KnowledgeProjector(
            log=self.knowledge.log,
            blobs=self.knowledge.blobs,
            store=self.store,
            tenant=self.knowledge.tenant,
            signal=self.signal,
            embedder=self.embedder,
            patience=0,
        )

    async def rebuild(self) -> int:
        """Build the index from the log."""
        return await self.build_projector().rebuild_index()

    async def search(self, text: str, *collections: str, **more: Any) -> SearchResult:  # noqa: ANN401
        """Search collections of the tenant, up to its last event."""
        sequence = (await self.knowledge.load_state()).sequence
        request = SearchRequest(
            tenant=self.knowledge.tenant,
            collections=collections,
            text=text,
            min_positions=IndexPositions(knowledge=sequence),
            **more,
        )
        return await self.searching.search(request)

    async def find_hits(
        self,
        text: str,
        *collections: str,
        **more: Any,  # noqa: ANN401
    ) -> tuple[KnowledgeHit, ...]:
        """Return the hits of a search."""
        return (await self.search(text, *collections, **more)).hits

    async def find_ids(self, text: str, *collections: str, **more: Any) -> list[str]:  # noqa: ANN401
        """Return the ids of the hits."""
        return [hit.entry_id for hit in await self.find_hits(text, *collections, **more)]
