"""What a turn reserves at most follows from its blueprint."""

from __future__ import annotations

from tests.agent_programs.turns.test_query_crashes import build_querying_blueprint
from tests.support.sessions.session_harness import build_small_blueprint
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.quotas.turn_bound import (
    DEFAULT_OUTPUT_TOKENS,
    UNBUDGETED_INPUT_TOKENS,
    TurnBound,
    compute_turn_bound,
)
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS, BlueprintFolders


def load_uderia() -> Blueprint:
    return BlueprintFolders((SHIPPED_BLUEPRINTS,)).load_blueprint("uderia")


def test_chat_turn_reserves_its_budget_and_its_maximum_output() -> None:
    small = build_small_blueprint()
    assert compute_turn_bound(small, "one", {}) == TurnBound(1_000, DEFAULT_OUTPUT_TOKENS)
    call = small.calls["reply"].model_copy(update={"parameters": {"max_tokens": 256}})
    limited = small.model_copy(update={"calls": {"reply": call}})
    assert compute_turn_bound(limited, "one", {}) == TurnBound(1_000, 256)


def test_planned_turn_reserves_all_steps_with_one_retry_each_and_the_summary() -> None:
    uderia = load_uderia()
    chat = compute_turn_bound(uderia, "llm_only", {})
    assert chat == TurnBound(2 * 8_000, 2 * DEFAULT_OUTPUT_TOKENS)
    calls = 1 + 2 * 8 + 1 + 1
    planned = compute_turn_bound(uderia, "tool_enabled", {})
    assert planned == TurnBound(calls * 8_000, calls * DEFAULT_OUTPUT_TOKENS)


def test_turn_reserves_its_pictures_where_no_budget_limits_them() -> None:
    querying, calls = build_querying_blueprint(), 2
    bound = compute_turn_bound(querying, "agent", {}, 1_500)
    assert bound.input_tokens == calls * (UNBUDGETED_INPUT_TOKENS + 1_500)
    assert compute_turn_bound(build_small_blueprint(), "one", {}, 1_500).input_tokens == 1_000


def test_turn_reserves_the_call_that_writes_queries_where_its_profile_retrieves() -> None:
    querying = build_querying_blueprint()
    calls = 2
    assert compute_turn_bound(querying, "agent", {}) == TurnBound(
        calls * UNBUDGETED_INPUT_TOKENS, calls * DEFAULT_OUTPUT_TOKENS
    )
    layers = querying.model_copy(
        update={"calls": {**querying.calls, "answer": querying.calls["query"]}}
    )
    assert compute_turn_bound(layers, "agent", {}).output_tokens == DEFAULT_OUTPUT_TOKENS
