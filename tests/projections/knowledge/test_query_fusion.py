"""Several queries of one retrieval, joined into one ranking."""

from __future__ import annotations

from tests.support.knowledge.fixed_search import build_found
from turnlog.events.model.retrieval_events import QueryRank
from turnlog.projections.knowledge.query_fusion import MAX_FUSED, join_query_hits
from turnlog.projections.knowledge.search_port import KnowledgeHit


def find(*names: str, confidence: float = 0.5) -> list[KnowledgeHit]:
    """Return what a query found, best first."""
    return [build_found(name, name, confidence) for name in names]


def test_the_first_of_each_query_comes_before_what_is_second_for_all() -> None:
    hits = join_query_hits([find("a", "general"), find("b", "general"), find("c", "general")])
    assert [each.hit.entry_id for each in hits] == ["a", "b", "c", "general"]
    assert [each.score for each in hits] == [1 / 61, 1 / 61, 1 / 61, 1 / 62]


def test_entries_of_equal_rank_are_ordered_by_what_all_queries_say() -> None:
    hits = join_query_hits([find("z", "x"), find("a"), find("z")])
    assert [each.hit.entry_id for each in hits] == ["z", "a", "x"]


def test_a_fused_hit_names_the_queries_that_found_it_nearest_first() -> None:
    far, near = find("a", confidence=0.3), find("b", "a", confidence=0.8)
    hits = {each.hit.entry_id: each for each in join_query_hits([far, near])}
    assert hits["a"].found_by == (
        QueryRank(query=2, rank=2, confidence=0.8),
        QueryRank(query=1, rank=1, confidence=0.3),
    )
    assert hits["a"].hit.confidence == 0.8
    assert hits["b"].found_by == (QueryRank(query=2, rank=1, confidence=0.8),)


def test_hits_of_one_query_stay_as_the_index_gave_them() -> None:
    found = find("b", "a")
    assert [(each.hit, each.score, each.found_by) for each in join_query_hits([found])] == [
        (hit, hit.fused_score, ()) for hit in found
    ]


def test_a_reranked_entry_counts_by_its_best_score() -> None:
    hits = join_query_hits([find("a", "b"), find("b", "c")], [[0.5, 0.2], [0.9, 0.1]])
    assert [(each.hit.entry_id, each.score) for each in hits] == [
        ("b", 0.9),
        ("a", 0.5),
        ("c", 0.1),
    ]


def test_the_number_of_fused_hits_is_limited() -> None:
    queries = [find(*(f"{query}-{rank}" for rank in range(24))) for query in range(4)]
    hits = join_query_hits(queries)
    assert len(hits) == MAX_FUSED
    assert {each.hit.entry_id.partition("-")[0] for each in hits} == {"0", "1", "2", "3"}
