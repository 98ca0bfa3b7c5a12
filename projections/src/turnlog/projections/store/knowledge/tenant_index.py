"""The index of a tenant in memory: the words and vectors of its entries, all of which are compared.

All vectors are compared with that of the query, and all entries scored that have a word of it:
exact answers, which depend neither on the order in which entries came nor on the database. 100,000
entries of 300 characters take 100 MB for vectors of 256 numbers and 30 MB for words. The index is
brought up to date before each search, from the same snapshot of the database as the rest of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, select

from turnlog.events.errors import Corrupt
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.knowledge.knowledge_projection import KnowledgeHistory, Vector
from turnlog.projections.store.knowledge.word_postings import (
    STORED_WORD_BYTES,
    Scores,
    WordPostings,
)
from turnlog.projections.store.schema.read_model_tables import KNOWLEDGE_TEXTS

SCORE_DIGITS: Final = 6
"""Digits of a score; processors differ in later ones."""

Ranking = list[tuple[int, float]]
"""Number and score of entries, best first."""

_PRODUCT_ERROR: Final = 1e-5
"""More than the product of two vectors of length 1 is off when it is computed with 32 bits."""

_MAX_LENGTH: Final = 1.001
"""More than the length of any vector that was stored."""

_FLOAT_BYTES: Final = 4

_WIDE_VECTORS: Final = 8_192
"""Vectors that are compared with 64 bits at a time, so that they take no memory to speak of."""

_STORED: Final = KNOWLEDGE_TEXTS.c

Chosen = NDArray[np.intp]
"""Places of entries."""


@dataclass(frozen=True, slots=True)
class ScoredEntries:
    """The entries that a ranking is made of, of which a search reads as many as it needs."""

    numbers: NDArray[np.int64]
    scores: NDArray[np.floating[Any]]
    compute_scores: Callable[[Chosen], Scores]
    """Return the exact scores of some of the entries; those in `scores` may be off by the error."""
    error: float = 0.0

    def list_best(self, limit: int) -> Ranking:
        """Return the best entries, at most so many; ties by number."""
        chosen = np.arange(len(self.scores))
        if len(chosen) > limit:
            bound = np.partition(self.scores, -limit)[-limit]
            chosen = np.flatnonzero(self.scores >= bound - 2 * self.error)
        scores = self.compute_scores(chosen)
        order = np.lexsort((self.numbers[chosen], -scores))[:limit]
        return list(zip(self.numbers[chosen[order]].tolist(), scores[order].tolist(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantIndex:
    """The words and vectors of one tenant."""

    build: int
    replaced: int = 0
    """How many entries had been replaced or removed when the index was last read."""
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Numbers of the entries, ascending."""
    collections: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    names: dict[str, int] = field(default_factory=dict[str, int])
    """The number of each collection in `collections`."""
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))
    postings: WordPostings = field(default_factory=WordPostings)

    def score_words(self, words: Sequence[int], collections: Sequence[str]) -> ScoredEntries:
        """Score the entries of collections that have any of the words."""
        scores = np.round(self.postings.compute_scores(words), SCORE_DIGITS)
        chosen = np.flatnonzero((scores > 0) & self._match_collections(collections))
        found = scores[chosen]
        return ScoredEntries(self.numbers[chosen], found, lambda some: found[some])

    def score_vectors(self, query: Vector, collections: Sequence[str]) -> ScoredEntries:
        """Score the entries of collections by their cosine with the query."""
        chosen = np.flatnonzero(self._match_collections(collections))
        if not len(chosen):
            return ScoredEntries(self.numbers[:0], np.empty(0), lambda _: np.empty(0))
        # Not a product of matrices: for a tenth less time it would keep all processors busy.
        products = np.vecdot(self.vectors, np.asarray(query, np.float32))
        return ScoredEntries(
            self.numbers[chosen],
            products[chosen],
            lambda some: self._compute_cosines(chosen[some], query),
            _PRODUCT_ERROR,
        )

    def compute_cosines(self, query: Vector, numbers: Sequence[int]) -> dict[int, float]:
        """Return the cosines of some entries."""
        cosines = self._compute_cosines(np.searchsorted(self.numbers, numbers), query)
        return dict(zip(numbers, cosines.tolist(), strict=True))

    def _match_collections(self, collections: Sequence[str]) -> NDArray[np.bool_]:
        wanted = [self.names[name] for name in collections if name in self.names]
        return np.isin(self.collections, wanted)

    def _compute_cosines(self, places: Chosen, query: Vector) -> Scores:
        # The vectors have length 1, so the product is the cosine. With 64 bits it depends on the
        # two vectors only, and with 32 bits also on the processor.
        wide = np.asarray(query)
        products: Scores = np.empty(len(places))
        for start in range(0, len(places), _WIDE_VECTORS):
            part = slice(start, start + _WIDE_VECTORS)
            np.vecdot(self.vectors[places[part]].astype(np.float64), wide, out=products[part])
        return np.round(products, SCORE_DIGITS)

    def keep_entries(self, present: NDArray[np.int64], replaced: int) -> TenantIndex:
        """Return the index with no other entries than those."""
        kept = np.isin(self.numbers, present)
        return TenantIndex(
            build=self.build,
            replaced=replaced,
            numbers=self.numbers[kept],
            collections=self.collections[kept],
            names=self.names,
            vectors=self.vectors[kept],
            postings=self.postings.keep_entries(kept),
        )

    def add_entries(self, rows: Sequence[Row[*tuple[Any, ...]]]) -> TenantIndex:
        """Return the index with further entries, whose numbers are higher.

        Raises `Corrupt` for rows that no projector wrote.
        """
        names = dict(self.names)
        places = [names.setdefault(row.collection, len(names)) for row in rows]
        vectors = _read_vectors(rows)
        return TenantIndex(
            build=self.build,
            replaced=self.replaced,
            numbers=np.concatenate(
                [self.numbers, np.array([row.number for row in rows], np.int64)]
            ),
            collections=np.concatenate([self.collections, np.array(places, np.int32)]),
            names=names,
            vectors=np.concatenate([self.vectors, vectors]) if len(self.numbers) else vectors,
            postings=self.postings.add_entries([row.words for row in rows]),
        )


def _read_vectors(rows: Sequence[Row[*tuple[Any, ...]]]) -> NDArray[np.float32]:
    """Return the vectors of rows; raises `Corrupt` for damaged ones."""
    width = len(rows[0].vector)
    for row in rows:
        if not row.vector or len(row.vector) != width or width % _FLOAT_BYTES:
            raise Corrupt("knowledge-index", f"the vector of entry {row.number} is damaged")
        if len(row.words) % STORED_WORD_BYTES:
            raise Corrupt("knowledge-index", f"the words of entry {row.number} are damaged")
    stored = np.frombuffer(b"".join(row.vector for row in rows), "<f4")
    vectors = stored.reshape(-1, width // _FLOAT_BYTES)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    damaged = np.flatnonzero(~(lengths <= _MAX_LENGTH))  # Also where it is no number
    if len(damaged):
        number = rows[int(damaged[0])].number
        raise Corrupt("knowledge-index", f"the vector of entry {number} is damaged")
    return vectors


@dataclass(slots=True)
class TenantIndexes:
    """The indexes of all tenants that were searched in this process."""

    by_tenant: dict[str, TenantIndex] = field(default_factory=dict[str, TenantIndex])
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load_index(
        self, connection: AsyncConnection, build: int, tenant: str, history: KnowledgeHistory
    ) -> TenantIndex:
        """Return the tenant's index, at least as new as the connection's snapshot.

        It may be newer: another search may have a later snapshot. What the index has and the
        snapshot does not, no search finds, because it has no row there.
        """
        async with self._lock:
            index = self.by_tenant.get(tenant)
            if index is None or index.build != build:
                index = TenantIndex(build=build)
            if index.replaced < history.replaced:
                index = await _drop_replaced(connection, index, tenant, history.replaced)
            index = await _add_new(connection, index, tenant)
            self.by_tenant[tenant] = index
            return index


async def _drop_replaced(
    connection: AsyncConnection, index: TenantIndex, tenant: str, replaced: int
) -> TenantIndex:
    found = select(_STORED.number).where(_STORED.build == index.build, _STORED.tenant == tenant)
    present = np.fromiter((await connection.execute(found)).scalars(), np.int64)
    return await asyncio.to_thread(index.keep_entries, present, replaced)


async def _add_new(connection: AsyncConnection, index: TenantIndex, tenant: str) -> TenantIndex:
    last = int(index.numbers[-1]) if len(index.numbers) else 0
    found = (
        select(_STORED.number, _STORED.collection, _STORED.words, _STORED.vector)
        .where(_STORED.build == index.build, _STORED.tenant == tenant, _STORED.number > last)
        .order_by(_STORED.number)
    )
    rows = (await connection.execute(found)).all()
    return await asyncio.to_thread(index.add_entries, rows) if rows else index
