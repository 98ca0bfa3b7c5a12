"""The requests and responses of knowledge: collections of cases and documents.

The rules of knowledge validate the values; these models check only the shape.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import FailFast, Field

from turnlog.contract.payload_models import RequestModel, ResponseModel

MAX_IMPORT_ENTRIES = 20_000
"""The maximum number of entries in one import."""

MAX_SEARCH_CHARACTERS = 8_000
"""The maximum length of what is sought."""

MAX_SEARCHED_COLLECTIONS = 50

MAX_SEARCH_HITS = 24
"""The maximum number of hits; with texts of the longest kind they still fit into one message."""

EntryKindWord = Literal["case", "document"]


class PutEntryRequest(RequestModel):
    """An entry as it is to be."""

    text: str
    """The text, at most 32,000 bytes."""
    kind: EntryKindWord = "document"
    """A case to be adapted, or a part of a document."""
    title: str = ""
    """What it is about, in one line; a case's is the question that it answers."""
    source: str | None = None
    """The file it comes from."""
    tags: Annotated[list[str], FailFast()] = []
    """Words to sort entries by."""
    attributes: dict[str, str] = {}
    """Further properties."""
    efficiency: float | None = None
    """How efficient a case was, from 0 to 1."""


class ImportedEntry(PutEntryRequest):
    """One entry of an import."""

    id: str
    """The id within the collection; the same id later edits the entry."""


class ImportEntriesRequest(RequestModel):
    """Adds or edits entries, all or none; those that already match are left unchanged."""

    collection: str
    """The collection; its first entry creates it."""
    entries: Annotated[list[ImportedEntry], Field(max_length=MAX_IMPORT_ENTRIES)]
    """The entries."""
    replace_sources: bool = False
    """Whether entries that came from the same sources before, and are not here, are removed."""


class SearchKnowledgeRequest(RequestModel):
    """A search in collections."""

    text: Annotated[str, Field(max_length=MAX_SEARCH_CHARACTERS)]
    """What is sought."""
    collections: Annotated[list[str], Field(max_length=MAX_SEARCHED_COLLECTIONS)] = []
    """The collections to search; all of the tenant's when none is named."""
    limit: Annotated[int, Field(ge=1, le=MAX_SEARCH_HITS)] = 10
    """The maximum number of hits."""
    kinds: Annotated[list[EntryKindWord], FailFast()] = []
    """Only entries of these kinds."""
    min_efficiency: Annotated[float, Field(ge=0, le=1)] | None = None
    """Only cases of at least this efficiency; documents are not concerned."""
    exclude_negative: bool = False
    """Whether entries with more negative than positive votes are left out."""


class KnowledgeChangeResult(ResponseModel):
    """The result of a change."""

    collection: str
    """The collection."""
    added: int
    """The number of new entries."""
    edited: int
    """The number of changed entries."""
    removed: int
    """The number of removed entries."""
    sequence: int
    """The sequence of the tenant's knowledge that the response reflects."""


class CollectionRow(ResponseModel):
    """A collection."""

    collection: str
    """Its name."""
    cases: int
    """How many cases it contains."""
    documents: int
    """How many parts of documents it contains."""
    characters: int
    """The length of all texts in code points."""


class EntryRow(ResponseModel):
    """An entry of a collection as it is now."""

    collection: str
    """The collection."""
    id: str
    """The id within the collection."""
    kind: EntryKindWord
    """`case` or `document`."""
    title: str
    """What it is about."""
    text: str | None
    """The text; null when it was erased."""
    digest: str
    """The digest of the text."""
    characters: int
    """The length in code points."""
    source: str | None
    """The file that an import read it from."""
    tags: tuple[str, ...]
    """Words that authors sort entries by."""
    attributes: dict[str, str]
    """Further properties."""
    efficiency: float | None
    """How efficient a case was, from 0 to 1."""
    revision: int
    """The sequence of the knowledge at which it got this text."""
    edited_at: str
    """When that was recorded."""
    edited_by: str
    """The actor of that."""


class CollectionList(ResponseModel):
    """The collections of a tenant."""

    collections: tuple[CollectionRow, ...]
    """The collections by name."""
    sequence: int
    """The sequence of the tenant's knowledge."""


class EntryPage(ResponseModel):
    """A page of entries, by id."""

    entries: tuple[EntryRow, ...]
    """The entries."""
    next: str | None
    """The `after` of the next page; null on the last page."""


class HitView(ResponseModel):
    """An entry that a search found."""

    collection: str
    """The collection."""
    id: str
    """The id within the collection."""
    revision: int
    """The sequence of the knowledge at which it got this text."""
    kind: EntryKindWord
    """`case` or `document`."""
    title: str
    """What it is about."""
    text: str
    """The text."""
    digest: str
    """The digest of the text."""
    efficiency: float | None
    """How efficient a case was."""
    feedback: int
    """The sum of the votes on turns that retrieved it."""
    lexical_score: float | None
    """BM25 on SQLite, `ts_rank` on Postgres; null if no word matched."""
    vector_score: float | None
    """Cosine with the query; null if it is not among the nearest."""
    fused_score: float
    """Reciprocal-rank fusion of both rankings, which orders the hits."""
    confidence: float
    """Cosine with the query, from 0 to 1."""


class KnowledgeSearchResult(ResponseModel):
    """The hits of a search, best first."""

    hits: tuple[HitView, ...]
    """The hits."""
    index_version: str
    """The rules of the index."""
    embedder: str
    """Name and version of the embedder."""
    sequence: int
    """The sequence of the tenant's knowledge that the index contains."""
