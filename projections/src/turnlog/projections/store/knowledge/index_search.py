"""The search of the knowledge index: two rankings, one filter, and their fusion.

The filter is applied to ranked entries in pages, so that a ranking is read only as far as needed,
and entries that are filtered out cost no others their place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, ScalarSelect, and_, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.projections.knowledge.rank_fusion import compute_fused_scores
from turnlog.projections.knowledge.search_port import KnowledgeHit, SearchRequest
from turnlog.projections.store.knowledge.index_tables import PGVECTOR, Vector, encode_vector
from turnlog.projections.store.knowledge.knowledge_projection import (
    KnowledgeHistory,
    KnowledgePosition,
)
from turnlog.projections.store.knowledge.vector_matrix import SCORE_DIGITS, VectorMatrices
from turnlog.projections.store.knowledge.word_ranking import rank_by_words
from turnlog.projections.store.read.row_filters import ACTIVE_BUILD
from turnlog.projections.store.schema.read_model_tables import (
    KNOWLEDGE_ENTRIES,
    RETRIEVED_ENTRIES,
    TURN_VOTES,
)

RANKING_DEPTH: Final = 96
"""Entries of each ranking that are fused."""

_PAGE_GROWTH: Final = 8
"""How much more of a ranking is read when the filter left too little of it."""

_STATEMENT_NUMBERS: Final = 1_000
"""Entries looked up in one statement."""

Ranking = list[tuple[int, float]]

RankEntries = Callable[[int], Awaitable[Ranking]]
"""Return the best entries of a ranking, at most so many."""

_ROWS: Final = KNOWLEDGE_ENTRIES.c


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """One search in one snapshot of the database."""

    connection: AsyncConnection
    at: KnowledgePosition
    history: KnowledgeHistory
    matrices: VectorMatrices
    request: SearchRequest
    vector: Vector
    """The query's."""

    async def find_hits(self) -> tuple[KnowledgeHit, ...]:
        """Return the hits, best first."""
        lexical = dict(await self._select_ranked(self._rank_by_words))
        nearest = dict(await self._select_ranked(self._rank_by_vectors) if any(self.vector) else ())
        fused = compute_fused_scores(list(lexical), list(nearest))
        rows = {row.number: row for row in await self._load_rows(list(fused))}
        order = sorted(
            rows.values(),
            key=lambda row: (-round(fused[row.number], 9), row.collection, row.entry),
        )[: self.request.limit]
        cosines = await self._measure_cosines([row.number for row in order])
        return tuple(
            self._build_hit(
                row,
                lexical.get(row.number),
                nearest.get(row.number),
                round(fused[row.number], 9),
                cosines.get(row.number, 0.0),
            )
            for row in order
        )

    async def _select_ranked(self, rank: RankEntries) -> Ranking:
        """Return the first entries of a ranking that pass the filter."""
        limit = RANKING_DEPTH
        while True:
            ranked = await rank(limit)
            allowed = await self._filter_numbers([number for number, _ in ranked])
            passed = [each for each in ranked if each[0] in allowed]
            if len(passed) >= RANKING_DEPTH or len(ranked) < limit:
                return passed[:RANKING_DEPTH]
            limit *= _PAGE_GROWTH

    async def _rank_by_words(self, limit: int) -> Ranking:
        return await rank_by_words(
            self.connection, self.request.tenant, self.history.number, self.request.text, limit
        )

    async def _rank_by_vectors(self, limit: int) -> Ranking:
        request = self.request
        if self.at.vectors == PGVECTOR:
            return await self._rank_in_database(limit)
        matrix = await self.matrices.load_matrix(
            self.connection, self.at.build, request.tenant, self.history
        )
        return await asyncio.to_thread(matrix.rank_entries, self.vector, request.collections, limit)

    async def _rank_in_database(self, limit: int) -> Ranking:
        found = text(
            "SELECT number, -(embedding <#> CAST(CAST(:vector AS text) AS vector)) AS score "
            "FROM knowledge_vectors WHERE tenant = :tenant AND collection = ANY(:collections) "
            "ORDER BY embedding <#> CAST(CAST(:vector AS text) AS vector), number LIMIT :limit"
        )
        values = {
            "vector": encode_vector(PGVECTOR, self.vector),
            "tenant": self.request.tenant,
            "collections": list(self.request.collections),
            "limit": limit,
        }
        rows = await self.connection.execute(found, values)
        return [(row.number, round(row.score, SCORE_DIGITS)) for row in rows]

    async def _measure_cosines(self, numbers: list[int]) -> dict[int, float]:
        if not any(self.vector) or not numbers:
            return {}
        if self.at.vectors == PGVECTOR:
            found = text(
                "SELECT number, -(embedding <#> CAST(CAST(:vector AS text) AS vector)) AS score "
                "FROM knowledge_vectors WHERE number = ANY(:numbers)"
            )
            values = {"vector": encode_vector(PGVECTOR, self.vector), "numbers": numbers}
            rows = await self.connection.execute(found, values)
            return {row.number: round(row.score, SCORE_DIGITS) for row in rows}
        matrix = self.matrices.by_tenant[self.request.tenant]
        return matrix.compute_scores(self.vector, numbers)

    async def _filter_numbers(self, numbers: Sequence[int]) -> set[int]:
        """Return those numbers whose entries the request allows."""
        columns: list[ColumnElement[Any]] = [
            _ROWS.number,
            _ROWS.tenant,
            _ROWS.collection,
            _ROWS.kind,
            _ROWS.efficiency,
        ]
        if self.request.exclude_negative:
            columns.append(_build_vote_sum().label("votes"))
        allowed: set[int] = set()
        for start in range(0, len(numbers), _STATEMENT_NUMBERS):
            some = numbers[start : start + _STATEMENT_NUMBERS]
            found = select(*columns).where(_match_numbers(self.at.build, some))
            rows = await self.connection.execute(found)
            allowed.update(row.number for row in rows if self._is_allowed(row))
        return allowed

    def _is_allowed(self, row: Row[*tuple[Any, ...]]) -> bool:
        # Not a condition of the statement: SQLite would then read the whole collection instead of
        # the few entries with these numbers.
        request = self.request
        if row.tenant != request.tenant or row.collection not in request.collections:
            return False
        if request.kinds and row.kind not in request.kinds:
            return False
        if request.exclude_negative and row.votes < 0:
            return False
        if request.min_efficiency is None or row.kind != "case":
            return True
        return row.efficiency is not None and row.efficiency >= request.min_efficiency

    async def _load_rows(self, numbers: Sequence[int]) -> Sequence[Row[*tuple[Any, ...]]]:
        found = select(KNOWLEDGE_ENTRIES, _build_vote_sum().label("votes")).where(
            _match_numbers(self.at.build, numbers)
        )
        return (await self.connection.execute(found)).all()

    def _build_hit(
        self,
        row: Row[*tuple[Any, ...]],
        lexical: float | None,
        nearest: float | None,
        fused: float,
        cosine: float,
    ) -> KnowledgeHit:
        return KnowledgeHit(
            collection=row.collection,
            entry_id=row.entry,
            revision=row.revision,
            kind=row.kind,
            title=row.title,
            text=row.content,
            digest=row.digest,
            efficiency=row.efficiency,
            feedback=row.votes,
            lexical_score=lexical,
            vector_score=nearest,
            fused_score=fused,
            confidence=min(max(cosine, 0.0), 1.0),
        )


def _match_numbers(build: int, numbers: Sequence[int]) -> ColumnElement[bool]:
    return and_(_ROWS.build == build, _ROWS.number.in_(numbers))


def _build_vote_sum() -> ColumnElement[int]:
    """Return the sum of the votes on turns that retrieved an entry."""
    used, votes = RETRIEVED_ENTRIES.c, TURN_VOTES.c
    of_same_turn = and_(
        votes.build == used.build,
        votes.tenant == used.tenant,
        votes.session == used.session,
        votes.turn == used.turn,
    )
    total: ScalarSelect[int] = (
        select(func.sum(votes.vote))
        .select_from(RETRIEVED_ENTRIES.join(TURN_VOTES, of_same_turn))
        .where(
            used.build == ACTIVE_BUILD,
            used.tenant == _ROWS.tenant,
            used.collection == _ROWS.collection,
            used.entry == _ROWS.entry,
        )
        .scalar_subquery()
    )
    return func.coalesce(total, 0)
