"""Routes for knowledge: listed from rows, edited on the log, searched in the index."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from turnlog.contract import api_paths
from turnlog.contract.knowledge_payloads import (
    CollectionList,
    EntryPage,
    EntryRow,
    ImportEntriesRequest,
    KnowledgeChangeResult,
    KnowledgeSearchResult,
    PutEntryRequest,
    SearchKnowledgeRequest,
)
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.knowledge.knowledge_use_cases import KnowledgeUseCases

router = APIRouter()


async def get_knowledge(request: Request) -> KnowledgeUseCases:
    """Return the use cases of this application."""
    knowledge: KnowledgeUseCases = request.app.state.use_cases.knowledge
    return knowledge


Knowledge = Annotated[KnowledgeUseCases, Depends(get_knowledge)]

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


@router.get(api_paths.COLLECTIONS, summary="List the collections of knowledge")
async def list_knowledge_collections(
    tenant: RequestTenant, knowledge: Knowledge, query: Annotated[KnowledgeReadQuery, Query()]
) -> CollectionList:
    """List the collections with the numbers of their entries."""
    return await knowledge.list_collections(tenant, query.min_sequence)


@router.get(api_paths.COLLECTION, summary="List the entries of a collection")
async def list_collection_entries(
    collection: CollectionPath,
    tenant: RequestTenant,
    knowledge: Knowledge,
    query: Annotated[EntryListQuery, Query()],
) -> EntryPage:
    """List the entries by id."""
    return await knowledge.list_entries(
        tenant,
        collection,
        limit=query.limit,
        after=query.after,
        min_sequence=query.min_sequence,
    )


@router.get(api_paths.ENTRY, summary="Show an entry")
async def show_entry(
    collection: CollectionPath,
    entry: EntryPath,
    tenant: RequestTenant,
    knowledge: Knowledge,
    query: Annotated[KnowledgeReadQuery, Query()],
) -> EntryRow:
    """Return an entry as it is now."""
    return await knowledge.load_entry(tenant, collection, entry, query.min_sequence)


@router.put(api_paths.ENTRY, summary="Add or edit an entry")
async def put_entry(
    collection: CollectionPath,
    entry: EntryPath,
    caller: CallerIdentity,
    knowledge: Knowledge,
    form: PutEntryRequest,
    response: Response,
) -> KnowledgeChangeResult:
    """Add an entry, or change it so that it is as given."""
    done = await knowledge.put_entry(caller.create_caller(form), collection, entry, form)
    return tag_body(response, done)


@router.post(api_paths.IMPORT_KNOWLEDGE, summary="Import entries")
async def import_entries(
    caller: CallerIdentity, knowledge: Knowledge, form: ImportEntriesRequest, response: Response
) -> KnowledgeChangeResult:
    """Import all these entries or none of them; a repeated import changes nothing."""
    return tag_body(response, await knowledge.import_entries(caller.create_caller(form), form))


@router.delete(api_paths.ENTRY, summary="Remove an entry")
async def remove_entry(
    collection: CollectionPath,
    entry: EntryPath,
    caller: CallerIdentity,
    knowledge: Knowledge,
    response: Response,
) -> KnowledgeChangeResult:
    """Remove an entry; no later turn retrieves it."""
    return tag_body(
        response, await knowledge.remove_entry(caller.create_caller(), collection, entry)
    )


@router.delete(api_paths.COLLECTION, summary="Remove a collection")
async def remove_collection(
    collection: CollectionPath, caller: CallerIdentity, knowledge: Knowledge, response: Response
) -> KnowledgeChangeResult:
    """Remove all entries of a collection."""
    return tag_body(response, await knowledge.remove_collection(caller.create_caller(), collection))


@router.post(api_paths.SEARCH_KNOWLEDGE, summary="Search collections")
async def search_knowledge(
    tenant: RequestTenant, knowledge: Knowledge, form: SearchKnowledgeRequest
) -> KnowledgeSearchResult:
    """Search the index, with everything that was acknowledged before."""
    return await knowledge.search(tenant, form)
