"""The search of a worker: over knowledge that is as new as the library was when it was asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from turnlog.events.errors import Refused
from turnlog.events.model.knowledge_events import KNOWLEDGE_FAMILY
from turnlog.events.store.ports import EventLog
from turnlog.projections.knowledge.search_port import (
    KnowledgeSearch,
    SearchRequest,
    SearchResult,
)

UNKNOWN_COLLECTION: Final = "unknown-collection"
"""The code of a search in a collection that does not exist."""


@dataclass(frozen=True, slots=True)
class CurrentKnowledgeSearch:
    """A `KnowledgeSearch` that finds every acknowledged change of the knowledge.

    A tenant without any knowledge is not searched for: that takes one read of the log.
    """

    library: EventLog
    search_index: KnowledgeSearch

    async def search(self, request: SearchRequest) -> SearchResult:
        """See `KnowledgeSearch.search`."""
        last = await self.library.read_last_event(request.tenant, KNOWLEDGE_FAMILY, leader=True)
        if last is None:
            detail = f"there is no collection {request.collections[0]!r}"
            raise Refused(UNKNOWN_COLLECTION, detail, field="collections")
        wanted = replace(request.min_positions, knowledge=last.sequence)
        return await self.search_index.search(replace(request, min_positions=wanted))
