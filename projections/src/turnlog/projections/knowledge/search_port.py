"""The port of the knowledge search: the query to an index, and its hits.

The index is a projection of the tenant's knowledge and of the votes on it. A query
states up to where the index must have read the log, so that it finds every acknowledged edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from turnlog.events.content import Digest
from turnlog.events.model.knowledge_events import EntryKind
from turnlog.events.model.retrieval_events import CandidateVote

MAX_CANDIDATES: Final = 24
"""The most hits of one search; with texts of the longest kind they still fit into one message."""


@dataclass(frozen=True, slots=True)
class IndexPositions:
    """Up to where an index contains the log; in a request, how far it must have come."""

    knowledge: int = 0
    """Sequence of the tenant's knowledge, as a change of it is answered with."""
    votes: int = 0
    """Stream sequence of the sessions' log up to which votes are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search in collections of one tenant."""

    tenant: str
    collections: tuple[str, ...]
    """The collections to search; no entry of another is found."""
    text: str
    """What is sought."""
    limit: int = MAX_CANDIDATES
    """The most hits over all collections together."""
    kinds: tuple[EntryKind, ...] = ()
    """Only entries of these kinds; empty means all."""
    min_efficiency: float | None = None
    """Only cases of at least this efficiency, and none of unknown; documents are not concerned."""
    exclude_negative: bool = False
    """Whether entries whose votes sum to less than zero are left out."""
    min_positions: IndexPositions = IndexPositions()
    """How far the index must have come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeHit:
    """An entry that a search found."""

    collection: str
    entry_id: str
    revision: int
    """Sequence of the tenant's knowledge at which the entry got this text."""
    kind: EntryKind
    title: str
    text: str
    digest: Digest
    """Digest of the text."""
    efficiency: float | None
    """How efficient a case was, from 0 to 1; None if unknown, and for documents."""
    feedback: int
    """The sum of the votes on the entry."""
    lexical_score: float | None
    """BM25 or the database's rank, higher is better; None if no word matched."""
    vector_score: float | None
    """Cosine with the query; None if the entry was not among the nearest."""
    fused_score: float
    """Reciprocal-rank fusion of both; hits are ordered by it."""
    confidence: float
    """Cosine of query and entry by the embedder, from 0 to 1."""
    votes: tuple[CandidateVote, ...] = ()
    """The newest of the votes that `feedback` is the sum of, newest first."""
    more_votes: int = 0
    """The number of older votes, which are in the sum and not named."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of a search, best first, and what found them."""

    hits: tuple[KnowledgeHit, ...]
    index_version: str
    """The rules of the index; other rules may find other hits."""
    embedder: str
    """Name and version of the embedder of the vectors."""
    positions: IndexPositions
    """How far the index had come."""


class KnowledgeSearch(Protocol):
    """Finds entries of collections."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """Return the hits of a search, best first; ties are ordered by collection and entry.

        Raises `Unavailable` with `what` being `knowledge-index` while the index is behind or
        rebuilt, and `embedder` when the embedder failed; both may be repeated. A collection that
        does not exist has no entries.
        """
        ...
