"""Which hits are taken: settings, ranks and the limit of tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.knowledge.fixed_search import build_found
from turnlog.events.model.retrieval_events import RetrievalLimits
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import (
    RetrievalSettings,
    RetrievalSpec,
)
from turnlog.projections.blueprint.token_counters import CharacterCounter
from turnlog.projections.knowledge.default_reranker import score_hits
from turnlog.projections.knowledge.query_fusion import join_query_hits
from turnlog.projections.knowledge.search_port import KnowledgeHit
from turnlog.projections.prompt.sources.hit_selection import select_hits

COUNTER = CharacterCounter(1)


def list_outcomes(limits: RetrievalLimits, *hits: KnowledgeHit) -> list[tuple[str, str]]:
    """Return the entries with what became of them, ranked by their joined score."""
    candidates = select_hits(join_query_hits([hits]), limits, COUNTER)
    return [(each.entry, each.outcome) for each in candidates]


def resolve(written: dict[str, Any], profile: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the settings of a retrieval under a profile."""
    spec = RetrievalSpec.model_validate({"collections": "a", **written})
    own = None if profile is None else RetrievalSettings.model_validate(profile)
    return spec.resolve_settings(own).model_dump()


def test_selection_stops_at_the_first_hit_that_does_not_fit_even_if_a_later_one_would() -> None:
    hits = [build_found(str(n), "x" * size, 1 - n / 10) for n, size in enumerate((10, 90, 10))]
    limits = RetrievalLimits(k=3, tokens=60)
    assert list_outcomes(limits, *hits) == [("0", "taken"), ("1", "tokens"), ("2", "tokens")]
    candidates = select_hits(join_query_hits([hits]), limits, COUNTER)
    assert candidates[0].tokens == len("[1] 0\n" + "x" * 10 + "\n\n")


def test_hits_excluded_by_settings_do_not_count_towards_k() -> None:
    limits = RetrievalLimits(k=2, min_score=0.5, min_efficiency=0.5, feedback="not_negative")
    hits = (
        build_found("slow", "a", 0.9, efficiency=0.49),
        build_found("unknown", "b", 0.8),
        build_found("disliked", "d", 0.7, feedback=-1),
        build_found("least", "c", 0.5, efficiency=0.5),
        build_found("spare", "c", 0.5),
        build_found("far", "e", 0.4999),
    )
    assert list_outcomes(limits, *hits) == [
        ("slow", "efficiency"),
        ("unknown", "taken"),
        ("disliked", "feedback"),
        ("least", "taken"),
        ("spare", "rank"),
        ("far", "score"),
    ]


def test_profile_overrides_settings_and_lock_overrides_the_profile() -> None:
    written = {"max_docs": 2, "min_score": 0.2, "lock": {"tokens": 2_000, "min_score": 0.4}}
    alone = resolve(written)
    assert (alone["max_docs"], alone["min_score"], alone["tokens"]) == (2, 0.4, 2_000)
    under = resolve(written, {"max_docs": 5, "min_score": 0.1, "tokens": 9_000, "rerank": True})
    assert (under["max_docs"], under["min_score"], under["tokens"]) == (5, 0.4, 2_000)
    assert under["rerank"] is True


def test_k_defaults_to_max_docs_times_the_number_of_collections() -> None:
    spec = RetrievalSpec.model_validate({"collections": ["a", "b", "c"], "max_docs": 5})
    assert spec.resolve_settings(None).most_taken == 15
    given = RetrievalSettings.model_validate({"k": 4})
    assert spec.resolve_settings(given).most_taken == 4
    assert RetrievalSpec.model_validate({"collections": "a"}).resolve_settings(None).most_taken == 3


def test_default_reranker_prefers_the_entry_that_contains_the_query_terms() -> None:
    near = build_found("near", "How ships are moored.", 0.80)
    naming = build_found("naming", "Berth 4 holds the ferry Bittern.", 0.70)
    query = "Which berth holds Bittern?"
    scores = score_hits(query, [near, naming])
    assert scores == [0.4, 0.5 * 0.7 + 0.5 * 3 / 4]
    assert score_hits("?", [replace(near, confidence=1.0)]) == [0.5]


def test_candidate_of_a_sealed_library_has_a_title_only_where_it_was_taken() -> None:
    hits = [replace(build_found(name, "a", 0.9), title=f"title {name}") for name in "abc"]
    sealed = [replace(each, digest=f"hmac-{each.digest}") for each in hits[:2]]
    candidates = select_hits(join_query_hits([[*sealed, hits[2]]]), RetrievalLimits(k=1), COUNTER)
    assert [(each.outcome, each.title) for each in candidates] == [
        ("taken", "title a"),
        ("rank", ""),
        ("rank", "title c"),
    ]
