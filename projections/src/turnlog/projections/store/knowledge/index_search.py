"""The search of the knowledge index: two rankings, one filter, and their fusion.

The filter is applied to ranked entries in pages, so that a ranking is read only as far as needed,
and entries that are filtered out cost no others their place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, select

from turnlog.projections.knowledge.rank_fusion import compute_fused_scores
from turnlog.projections.knowledge.search_port import KnowledgeHit, SearchRequest
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.knowledge.entry_votes import (
    NO_VOTES,
    VoteTally,
    load_vote_tallies,
)
from turnlog.projections.store.knowledge.entry_words import list_query_words
from turnlog.projections.store.knowledge.knowledge_projection import Vector
from turnlog.projections.store.knowledge.tenant_index import ScoredEntries, TenantIndex
from turnlog.projections.store.schema.read_model_tables import KNOWLEDGE_ENTRIES

RANKING_DEPTH: Final = 96
"""Entries of each ranking that are fused."""

_PAGE_GROWTH: Final = 8
"""How much more of a ranking is read when the filter left too little of it."""

_STATEMENT_NUMBERS: Final = 1_000
"""Entries looked up in one statement."""

_ROWS: Final = KNOWLEDGE_ENTRIES.c


@dataclass(frozen=True, slots=True)
class RankedEntry:
    """An entry that passed the filter, with its score in one ranking."""

    number: int
    score: float
    name: tuple[str, str]
    """Collection and id."""


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """One search in one snapshot of the database."""

    connection: AsyncConnection
    index: TenantIndex
    request: SearchRequest
    vector: Vector
    """The query's."""

    async def find_hits(self) -> tuple[KnowledgeHit, ...]:
        """Return the hits, best first."""
        by_words, by_vectors = await asyncio.to_thread(self._score_entries)
        lexical = {each.number: each for each in await self._select_ranked(by_words)}
        nearest = {each.number: each for each in await self._select_ranked(by_vectors)}
        fused = compute_fused_scores(list(lexical), list(nearest))
        found = lexical | nearest
        order = sorted(fused, key=lambda number: (-round(fused[number], 9), found[number].name))
        best = order[: self.request.limit]
        cosines = self.index.compute_cosines(self.vector, best) if best else {}
        rows = {row.number: row for row in await self._load_rows(best)}
        tallies = await load_vote_tallies(self.connection, self.index.build, best)
        return tuple(
            _build_hit(
                row=rows[number],
                tally=tallies.get(number, NO_VOTES),
                lexical=lexical.get(number),
                nearest=nearest.get(number),
                fused=round(fused[number], 9),
                cosine=cosines[number],
            )
            for number in best
        )

    def _score_entries(self) -> tuple[ScoredEntries, ScoredEntries]:
        collections = self.request.collections
        by_words = self.index.score_words(list_query_words(self.request.text), collections)
        # A query without anything that the embedder knows is near to nothing.
        searched = collections if any(self.vector) else ()
        return by_words, self.index.score_vectors(self.vector, searched)

    async def _select_ranked(self, scored: ScoredEntries) -> list[RankedEntry]:
        """Return the first entries of a ranking that pass the filter."""
        limit = RANKING_DEPTH
        while True:
            ranked = scored.list_best(limit)
            names = await self._filter_numbers([number for number, _ in ranked])
            passed = [
                RankedEntry(number, score, names[number])
                for number, score in ranked
                if number in names
            ]
            if len(passed) >= RANKING_DEPTH or len(ranked) < limit:
                return passed[:RANKING_DEPTH]
            limit *= _PAGE_GROWTH

    async def _filter_numbers(self, numbers: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Return collection and id of those entries that the request allows."""
        columns: list[ColumnElement[Any]] = [
            _ROWS.number,
            _ROWS.tenant,
            _ROWS.collection,
            _ROWS.entry,
            _ROWS.kind,
            _ROWS.efficiency,
        ]
        allowed: dict[int, tuple[str, str]] = {}
        for start in range(0, len(numbers), _STATEMENT_NUMBERS):
            some = numbers[start : start + _STATEMENT_NUMBERS]
            found = select(*columns).where(_match_numbers(self.index.build, some))
            disliked = await self._find_disliked(some)
            for row in await self.connection.execute(found):
                if self._is_allowed(row) and row.number not in disliked:
                    allowed[row.number] = row.collection, row.entry
        return allowed

    async def _find_disliked(self, numbers: Sequence[int]) -> set[int]:
        """Return the entries that the votes exclude from this search."""
        if not self.request.exclude_negative:
            return set()
        tallies = await load_vote_tallies(self.connection, self.index.build, numbers)
        return {number for number, tally in tallies.items() if tally.total < 0}

    def _is_allowed(self, row: Row[*tuple[Any, ...]]) -> bool:
        # Not a condition of the statement: SQLite would then read the whole collection instead of
        # the few entries with these numbers.
        request = self.request
        if row.tenant != request.tenant or row.collection not in request.collections:
            return False
        if request.kinds and row.kind not in request.kinds:
            return False
        if request.min_efficiency is None or row.kind != "case":
            return True
        return row.efficiency is not None and row.efficiency >= request.min_efficiency

    async def _load_rows(self, numbers: Sequence[int]) -> Sequence[Row[*tuple[Any, ...]]]:
        found = select(KNOWLEDGE_ENTRIES).where(_match_numbers(self.index.build, numbers))
        return (await self.connection.execute(found)).all()


def _build_hit(
    row: Row[*tuple[Any, ...]],
    tally: VoteTally,
    lexical: RankedEntry | None,
    nearest: RankedEntry | None,
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
        feedback=tally.total,
        votes=tally.named,
        more_votes=tally.others,
        lexical_score=lexical.score if lexical else None,
        vector_score=nearest.score if nearest else None,
        fused_score=fused,
        confidence=min(max(cosine, 0.0), 1.0),
    )


def _match_numbers(build: int, numbers: Sequence[int]) -> ColumnElement[bool]:
    return and_(_ROWS.build == build, _ROWS.number.in_(numbers))
