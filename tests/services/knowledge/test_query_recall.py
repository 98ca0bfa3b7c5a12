"""What a diff finds of the guidelines that it needs: as one query, and as one for each hunk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.support.review_diffs import GUIDELINES, ReviewedDiff, list_diffs
from tests.support.knowledge.indexed_knowledge import IndexHarness
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import PatternQueries
from turnlog.projections.knowledge.knowledge_inputs import EntryInput
from turnlog.projections.knowledge.query_fusion import join_query_hits
from turnlog.projections.prompt.sources.retrieval_queries import build_queries
from turnlog.projections.store.engine import open_store

TAKEN = 4
"""As many as a diff has hunks."""


async def count_found(index: IndexHarness, diff: ReviewedDiff, spec: PatternQueries | None) -> int:
    queries = build_queries(spec, diff.text, {}).texts
    hits = join_query_hits([await index.find_hits(query, "guidelines") for query in queries])
    return len(diff.needed & {each.hit.entry_id for each in hits[:TAKEN]})


@pytest.mark.slow("embeds forty guidelines and searches for fifty queries")
async def test_a_query_for_each_hunk_finds_more_guidelines_than_the_diff_as_one(
    tmp_path: Path,
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'rows.db'}")
    index = IndexHarness(store)
    entries = [EntryInput(id=each.id, text=each.text) for each in GUIDELINES]
    await index.knowledge.put_entries("guidelines", *entries)
    await index.rebuild()

    async def sum_found(diffs: Sequence[ReviewedDiff], spec: PatternQueries | None) -> int:
        return sum([await count_found(index, diff, spec) for diff in diffs])

    diffs = list_diffs()
    assert await sum_found(diffs, None) == 20
    assert await sum_found(diffs, PatternQueries(pattern="^@@ ")) == 26
    await store.close()
