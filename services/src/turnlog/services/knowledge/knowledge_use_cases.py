"""Reading, editing and searching knowledge: lists from rows, edits on the log, hits of the index.

A change is an event: under its idempotency key it is applied once, and the next search finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from turnlog.contract.knowledge_payloads import (
    CollectionList,
    CollectionRow,
    EntryPage,
    EntryRow,
    HitView,
    ImportEntriesRequest,
    KnowledgeChangeResult,
    KnowledgeSearchResult,
    PutEntryRequest,
    SearchKnowledgeRequest,
)
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.knowledge.knowledge_decisions import (
    build_unknown_collection,
    build_unknown_entry,
)
from turnlog.projections.knowledge.knowledge_inputs import (
    EntryInput,
    KnowledgeCommand,
    PutEntries,
    RemoveEntries,
    check_collection_name,
)
from turnlog.projections.knowledge.search_port import (
    IndexPositions,
    KnowledgeHit,
    KnowledgeSearch,
    SearchRequest,
)
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.knowledge.knowledge_projection import read_knowledge_sequence
from turnlog.projections.store.knowledge.knowledge_queries import (
    find_entry,
    list_collections,
    list_entries,
)
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.row_waits import RowWaits
from turnlog.services.knowledge.knowledge_service import KnowledgeService


@dataclass(frozen=True, slots=True)
class KnowledgeUseCases:
    """Reads, edits and searches the knowledge of tenants."""

    knowledge_service: KnowledgeService
    knowledge_search: KnowledgeSearch
    store: ReadModelStore
    row_waits: RowWaits

    async def list_collections(
        self, tenant: str, min_sequence: int | None = None
    ) -> CollectionList:
        """List the collections with the numbers of their entries."""
        await self._wait_for_rows(tenant, min_sequence)
        sequence = await read_knowledge_sequence(self.store, tenant)
        async with self.store.open_reader() as connection:
            rows = await list_collections(connection, tenant)
        found = tuple(CollectionRow.model_validate(row) for row in rows)
        return CollectionList(collections=found, sequence=sequence)

    async def list_entries(
        self,
        tenant: str,
        collection: str,
        *,
        limit: int,
        after: str = "",
        min_sequence: int | None = None,
    ) -> EntryPage:
        """List the entries of a collection by id; `after` is the `next` of the previous page."""
        check_collection_name(collection)
        check_text(after, "after")
        await self._wait_for_rows(tenant, min_sequence)
        async with self.store.open_reader() as connection:
            rows, more = await list_entries(
                connection, tenant, collection, after=after, limit=limit
            )
        if not rows and not after:
            await self._require_collections(tenant, (collection,))
        entries = tuple(EntryRow.model_validate(row) for row in rows)
        return EntryPage(entries=entries, next=rows[-1].id if more else None)

    async def load_entry(
        self, tenant: str, collection: str, entry: str, min_sequence: int | None = None
    ) -> EntryRow:
        """Return an entry as it is now."""
        check_collection_name(collection)
        check_text(entry, "entry")
        await self._wait_for_rows(tenant, min_sequence)
        async with self.store.open_reader() as connection:
            found = await find_entry(connection, tenant, collection, entry)
        if found is None:
            raise build_unknown_entry(collection, entry)
        return EntryRow.model_validate(found)

    async def put_entry(
        self, caller: Caller, collection: str, entry: str, request: PutEntryRequest
    ) -> KnowledgeChangeResult:
        """Add an entry, or change it so that it is as given."""
        command = PutEntries(collection, (_build_entry_input(entry, request),))
        try:
            return await self._handle(caller, command)
        except Refused as refused:
            name = (refused.field or "").removeprefix("entries.0.")
            refused.field = "entry" if name == "id" else name
            raise

    async def import_entries(
        self, caller: Caller, request: ImportEntriesRequest
    ) -> KnowledgeChangeResult:
        """Import all these entries or none of them; a repeated import changes nothing."""
        entries = tuple(_build_entry_input(each.id, each) for each in request.entries)
        command = PutEntries(request.collection, entries, request.replace_sources)
        return await self._handle(caller, command)

    async def remove_entry(
        self, caller: Caller, collection: str, entry: str
    ) -> KnowledgeChangeResult:
        """Remove an entry; no later turn retrieves it."""
        return await self._handle(caller, RemoveEntries(collection, (entry,)))

    async def remove_collection(self, caller: Caller, collection: str) -> KnowledgeChangeResult:
        """Remove all entries of a collection."""
        return await self._handle(caller, RemoveEntries(collection))

    async def search(self, tenant: str, request: SearchKnowledgeRequest) -> KnowledgeSearchResult:
        """Search the index, with everything that was acknowledged before."""
        if not request.text.strip():
            detail = "there is nothing to seek"
            raise Refused("invalid", detail, field="text", fix="write a question")
        state = await self.knowledge_service.load_state(tenant)
        await self._require_collections(tenant, request.collections)
        result = await self.knowledge_search.search(
            SearchRequest(
                tenant=tenant,
                collections=tuple(request.collections) or tuple(sorted(state.collections)),
                text=request.text,
                limit=request.limit,
                kinds=tuple(request.kinds),
                min_efficiency=request.min_efficiency,
                exclude_negative=request.exclude_negative,
                min_positions=IndexPositions(knowledge=state.sequence),
            )
        )
        return KnowledgeSearchResult(
            hits=tuple(_build_hit_view(hit) for hit in result.hits),
            index_version=result.index_version,
            embedder=result.embedder,
            sequence=result.positions.knowledge,
        )

    async def _handle(self, caller: Caller, command: KnowledgeCommand) -> KnowledgeChangeResult:
        outcome = await self.knowledge_service.handle(
            caller.tenant, command, caller.metadata, caller.command
        )
        changes = outcome.changes
        return KnowledgeChangeResult(
            collection=command.collection,
            added=len(changes.added),
            edited=len(changes.edited),
            removed=len(changes.removed),
            sequence=changes.sequence,
        )

    async def _require_collections(self, tenant: str, collections: Sequence[str]) -> None:
        state = await self.knowledge_service.load_state(tenant)
        for each in collections:
            check_collection_name(each)
            if each not in state.collections:
                raise build_unknown_collection(each, state)

    async def _wait_for_rows(self, tenant: str, min_sequence: int | None) -> None:
        if min_sequence is not None:
            head = (await self.knowledge_service.load_state(tenant)).sequence
            look = partial(read_knowledge_sequence, self.store, tenant)
            await self.row_waits.wait_for_rows(look, min_sequence, head)


def _build_hit_view(hit: KnowledgeHit) -> HitView:
    return HitView(
        collection=hit.collection,
        id=hit.entry_id,
        revision=hit.revision,
        kind=hit.kind,
        title=hit.title,
        text=hit.text,
        digest=hit.digest,
        efficiency=hit.efficiency,
        feedback=hit.feedback,
        lexical_score=hit.lexical_score,
        vector_score=hit.vector_score,
        fused_score=hit.fused_score,
        confidence=hit.confidence,
    )


def _build_entry_input(entry: str, request: PutEntryRequest) -> EntryInput:
    return EntryInput(
        id=entry,
        text=request.text,
        kind=request.kind,
        title=request.title,
        source=request.source,
        tags=tuple(request.tags),
        attributes=request.attributes,
        efficiency=request.efficiency,
    )
