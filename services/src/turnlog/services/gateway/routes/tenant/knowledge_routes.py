"""Routes for knowledge: listed from rows, edited on the log, searched in the index.

A change is an event: under its idempotency key it is applied once, and after a 2xx response the
next search finds it.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.storable_json import MAX_INT, check_text
from turnlog.projections.knowledge.knowledge_decisions import build_unknown_collection
from turnlog.projections.knowledge.knowledge_inputs import (
    KnowledgeCommand,
    PutEntries,
    RemoveEntries,
    check_collection_name,
)
from turnlog.projections.knowledge.search_port import (
    IndexPositions,
    KnowledgeHit,
    SearchRequest,
)
from turnlog.projections.store.knowledge.knowledge_projection import read_knowledge_sequence
from turnlog.projections.store.knowledge.knowledge_queries import (
    find_entry,
    list_collections,
    list_entries,
)
from turnlog.projections.store.read.row_types import EntryRow
from turnlog.services.api.knowledge_payloads import (
    CollectionList,
    EntryPage,
    HitView,
    ImportEntriesRequest,
    KnowledgeChangeResult,
    KnowledgeSearchResult,
    PutEntryRequest,
    SearchKnowledgeRequest,
)
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.http.headers import set_etag
from turnlog.services.gateway.http.request_checks import wait_for_rows
from turnlog.services.gateway.http.request_identity import CallerIdentity, RequestIdentity

router = APIRouter()

IMPORT_PATH: Final = "/v1/knowledge/import"
"""The path whose body limit is larger."""

SEARCH_PATH: Final = "/v1/knowledge/search"

_COLLECTION: Final = "/v1/knowledge/collections/{collection}"

_ENTRY: Final = "/v1/knowledge/collections/{collection}/entries/{entry}"

CollectionPath = Annotated[str, Path(description="The name of the collection.")]

EntryPath = Annotated[str, Path(description="The entry's id within its collection.")]


class KnowledgeReadQuery(BaseModel):
    """The query parameter of all reads from rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_sequence: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """Wait until the read models contain this sequence of the knowledge."""


class EntryListQuery(KnowledgeReadQuery):
    """The query parameters of a list of entries."""

    limit: Annotated[int, Field(ge=1, le=500)] = 100
    """The maximum number of entries in a page."""
    after: Annotated[str, Field(max_length=128)] = ""
    """The `next` of the previous page."""


@router.get("/v1/knowledge/collections", summary="List the collections of knowledge")
async def list_knowledge_collections(
    tenant: RequestTenant, deps: Dependencies, query: Annotated[KnowledgeReadQuery, Query()]
) -> CollectionList:
    """List the collections with the numbers of their entries."""
    await _wait_for_rows(deps, tenant, query)
    sequence = await read_knowledge_sequence(deps.store, tenant)
    async with deps.store.open_reader() as connection:
        rows = await list_collections(connection, tenant)
    return CollectionList(collections=rows, sequence=sequence)


@router.get(_COLLECTION, summary="List the entries of a collection")
async def list_collection_entries(
    collection: CollectionPath,
    tenant: RequestTenant,
    deps: Dependencies,
    query: Annotated[EntryListQuery, Query()],
) -> EntryPage:
    """List the entries by id."""
    check_collection_name(collection)
    check_text(query.after, "after")
    await _wait_for_rows(deps, tenant, query)
    async with deps.store.open_reader() as connection:
        rows, more = await list_entries(
            connection, tenant, collection, after=query.after, limit=query.limit
        )
    if not rows and not query.after:
        await _require_collections(deps, tenant, (collection,))
    return EntryPage(entries=rows, next=rows[-1].id if more else None)


@router.get(_ENTRY, summary="Show an entry")
async def show_entry(
    collection: CollectionPath,
    entry: EntryPath,
    tenant: RequestTenant,
    deps: Dependencies,
    query: Annotated[KnowledgeReadQuery, Query()],
) -> EntryRow:
    """Return an entry as it is now."""
    check_collection_name(collection)
    check_text(entry, "entry")
    await _wait_for_rows(deps, tenant, query)
    async with deps.store.open_reader() as connection:
        found = await find_entry(connection, tenant, collection, entry)
    if found is None:
        detail = f"{collection} has no entry {entry[:128]!r}"
        raise Refused("unknown-entry", detail, field="entry")
    return found


@router.put(_ENTRY, summary="Add or edit an entry")
async def put_entry(
    collection: CollectionPath,
    entry: EntryPath,
    caller: CallerIdentity,
    deps: Dependencies,
    form: PutEntryRequest,
    response: Response,
) -> KnowledgeChangeResult:
    """Add an entry, or change it so that it is as given."""
    command = PutEntries(collection, (form.convert_to_input(entry),))
    try:
        return await _handle(deps, caller, command, form, response)
    except Refused as refused:
        name = (refused.field or "").removeprefix("entries.0.")
        refused.field = "entry" if name == "id" else name
        raise


@router.post(IMPORT_PATH, summary="Import entries")
async def import_entries(
    caller: CallerIdentity, deps: Dependencies, form: ImportEntriesRequest, response: Response
) -> KnowledgeChangeResult:
    """Import all these entries or none of them; a repeated import changes nothing."""
    return await _handle(deps, caller, form.create_command(), form, response)


@router.delete(_ENTRY, summary="Remove an entry")
async def remove_entry(
    collection: CollectionPath,
    entry: EntryPath,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
) -> KnowledgeChangeResult:
    """Remove an entry; no later turn retrieves it."""
    return await _handle(deps, caller, RemoveEntries(collection, (entry,)), None, response)


@router.delete(_COLLECTION, summary="Remove a collection")
async def remove_collection(
    collection: CollectionPath, caller: CallerIdentity, deps: Dependencies, response: Response
) -> KnowledgeChangeResult:
    """Remove all entries of a collection."""
    return await _handle(deps, caller, RemoveEntries(collection), None, response)


@router.post(SEARCH_PATH, summary="Search collections")
async def search_knowledge(
    tenant: RequestTenant, deps: Dependencies, form: SearchKnowledgeRequest
) -> KnowledgeSearchResult:
    """Search the index, with everything that was acknowledged before."""
    if not form.text.strip():
        raise Refused("invalid", "there is nothing to seek", field="text", fix="write a question")
    state = await deps.knowledge_service.load_state(tenant)
    await _require_collections(deps, tenant, form.collections)
    result = await deps.knowledge_search.search(
        SearchRequest(
            tenant,
            tuple(form.collections) or tuple(sorted(state.collections)),
            form.text,
            form.limit,
            tuple(form.kinds),
            form.min_efficiency,
            form.exclude_negative,
            IndexPositions(knowledge=state.sequence),
        )
    )
    return KnowledgeSearchResult(
        hits=tuple(_build_hit_view(hit) for hit in result.hits),
        index_version=result.index_version,
        embedder=result.embedder,
        sequence=result.positions.knowledge,
    )


async def _handle(
    deps: GatewayDependencies,
    caller: RequestIdentity,
    command: KnowledgeCommand,
    form: BaseModel | None,
    response: Response,
) -> KnowledgeChangeResult:
    outcome = await deps.knowledge_service.handle(
        caller.tenant, command, caller.author, caller.create_command_key(form)
    )
    changes = outcome.changes
    set_etag(response, changes.sequence)
    return KnowledgeChangeResult(
        collection=command.collection,
        added=len(changes.added),
        edited=len(changes.edited),
        removed=len(changes.removed),
        sequence=changes.sequence,
    )


async def _require_collections(
    deps: GatewayDependencies, tenant: str, collections: tuple[str, ...] | list[str]
) -> None:
    state = await deps.knowledge_service.load_state(tenant)
    for each in collections:
        check_collection_name(each)
        if each not in state.collections:
            raise build_unknown_collection(each, state)


async def _wait_for_rows(deps: GatewayDependencies, tenant: str, query: KnowledgeReadQuery) -> None:
    if query.min_sequence is not None:
        head = (await deps.knowledge_service.load_state(tenant)).sequence
        look = partial(read_knowledge_sequence, deps.store, tenant)
        await wait_for_rows(deps, look, query.min_sequence, head)


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
