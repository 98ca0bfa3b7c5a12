"""Vectors of a tenant in memory, for databases without a type for them.

All vectors are compared, by one product of a matrix with the query: an exact answer, which does not
depend on the order in which entries came. 100,000 vectors of 256 numbers take 100 MB. The matrix is
brought up to date before each search, from the same snapshot of the database as the rest of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.projections.store.knowledge.index_tables import Vector
from turnlog.projections.store.knowledge.knowledge_projection import KnowledgeHistory
from turnlog.projections.store.schema.read_model_tables import KNOWLEDGE_ENTRIES

SCORE_DIGITS: Final = 6
"""Digits of a cosine; processors differ in later ones."""

Numbers = NDArray[np.int64]
Matrix = NDArray[np.float32]


@dataclass(slots=True)
class TenantMatrix:
    """The vectors of one tenant."""

    build: int
    replaced: int = 0
    """How many entries were replaced or removed when the matrix was last read."""
    numbers: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    """Numbers of the entries, ascending."""
    collections: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    names: dict[str, int] = field(default_factory=dict[str, int])
    """The number of each collection in `collections`."""
    vectors: Matrix = field(default_factory=lambda: np.empty((0, 0), np.float32))

    def rank_entries(
        self, query: Vector, collections: tuple[str, ...], limit: int
    ) -> list[tuple[int, float]]:
        """Return number and cosine of the nearest entries, nearest first; ties by number."""
        wanted = [self.names[name] for name in collections if name in self.names]
        if not wanted or not len(self.numbers):
            return []
        scores = self._compute_cosines(query)
        inside = np.isin(self.collections, wanted)
        chosen = np.flatnonzero(inside) if not inside.all() else np.arange(len(scores))
        if len(chosen) > limit:
            bound = np.partition(scores[chosen], -limit)[-limit]
            chosen = chosen[scores[chosen] >= bound]
        order = np.lexsort((self.numbers[chosen], -scores[chosen]))[:limit]
        return [(int(self.numbers[i]), _round_score(float(scores[i]))) for i in chosen[order]]

    def compute_scores(self, query: Vector, numbers: list[int]) -> dict[int, float]:
        """Return the cosines of some entries."""
        places = np.searchsorted(self.numbers, numbers)
        scores = self.vectors[places] @ np.asarray(query, np.float32)
        return dict(zip(numbers, map(_round_score, scores), strict=True))

    def _compute_cosines(self, query: Vector) -> NDArray[np.float32]:
        # The vectors have length 1, so the product is the cosine.
        return np.round(self.vectors @ np.asarray(query, np.float32), SCORE_DIGITS)


def _round_score(score: float) -> float:
    return round(float(score), SCORE_DIGITS)


@dataclass(slots=True)
class VectorMatrices:
    """The matrices of all tenants that were searched in this process."""

    by_tenant: dict[str, TenantMatrix] = field(default_factory=dict[str, TenantMatrix])
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load_matrix(
        self, connection: AsyncConnection, build: int, tenant: str, history: KnowledgeHistory
    ) -> TenantMatrix:
        """Return the tenant's matrix as of the connection's snapshot."""
        async with self._lock:
            matrix = self.by_tenant.get(tenant)
            if matrix is None or matrix.build != build or matrix.replaced > history.replaced:
                matrix = TenantMatrix(build)
            if matrix.replaced != history.replaced:
                matrix = await _drop_replaced(connection, matrix, tenant, history.replaced)
            matrix = await _add_new(connection, matrix, tenant)
            self.by_tenant[tenant] = matrix
            return matrix


async def _drop_replaced(
    connection: AsyncConnection, matrix: TenantMatrix, tenant: str, replaced: int
) -> TenantMatrix:
    rows = KNOWLEDGE_ENTRIES.c
    found = select(rows.number).where(rows.build == matrix.build, rows.tenant == tenant)
    present = np.fromiter((await connection.execute(found)).scalars(), np.int64)
    kept = np.isin(matrix.numbers, present)
    return TenantMatrix(
        matrix.build,
        replaced,
        matrix.numbers[kept],
        matrix.collections[kept],
        matrix.names,
        matrix.vectors[kept],
    )


async def _add_new(connection: AsyncConnection, matrix: TenantMatrix, tenant: str) -> TenantMatrix:
    last = int(matrix.numbers[-1]) if len(matrix.numbers) else 0
    found = text(
        "SELECT number, collection, embedding FROM knowledge_vectors "
        "WHERE tenant = :tenant AND number > :last ORDER BY number"
    )
    rows = (await connection.execute(found, {"tenant": tenant, "last": last})).all()
    if not rows:
        return matrix
    names = dict(matrix.names)
    places = [names.setdefault(row.collection, len(names)) for row in rows]
    width = len(rows[0].embedding) // 4
    vectors = np.frombuffer(b"".join(row.embedding for row in rows), "<f4").reshape(-1, width)
    return TenantMatrix(
        matrix.build,
        matrix.replaced,
        np.concatenate([matrix.numbers, np.array([row.number for row in rows], np.int64)]),
        np.concatenate([matrix.collections, np.array(places, np.int64)]),
        names,
        np.concatenate([matrix.vectors, vectors]) if len(matrix.numbers) else vectors.copy(),
    )
