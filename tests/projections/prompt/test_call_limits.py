"""The limits of a call follow what its provider has said: its counter, its budget, its ladder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.history.test_summaries import build_summarising_blueprint
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.assembly_inputs import ASSEMBLER_VERSION
from turnlog.projections.prompt.budget.admission_limits import (
    check_turn_size,
    check_turn_text,
    find_definition_limit,
)
from turnlog.projections.prompt.budget.call_limits import CallLimits, find_call_limits
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.token_counts import CountCorrection, ModelLimit
from turnlog.projections.testing import given, open_session

MODEL = "openai/heron"

MEASURED = CountCorrection(
    model=MODEL, counter="chars/1", factor=3.5, measured_in="1.1", context_tokens=800
)


def build_state(**corrections: CountCorrection) -> SessionState:
    """Return a session of the profile `talk` that has measured its counts so."""
    opened = given(open_session()).opened_state
    by_model = {kind: {each.model: each} for kind, each in corrections.items()}
    return replace(opened, profile="talk", corrections=by_model)


def build_material(blueprint: Blueprint | None = None) -> SessionMaterial:
    return SessionMaterial(blueprint=blueprint or build_summarising_blueprint())


def find_limits(
    state: SessionState, kind: str, model: str, assembler: int = ASSEMBLER_VERSION
) -> CallLimits:
    """Return the limits of a call whose model no file of dialects limits."""
    return find_call_limits(build_material(), state, kind, model, assembler, context_tokens=None)


def test_measured_call_counts_with_the_factor_and_knows_what_its_model_takes() -> None:
    limits = find_limits(build_state(reply=MEASURED), "reply", MODEL)
    assert limits.counting.count_tokens("four") == 14
    assert limits.counter.measured_in == "1.1"
    assert limits.model_limit == ModelLimit(700, 800)


@pytest.mark.parametrize(
    ("kind", "model", "assembler"),
    [("summarise", MODEL, 6), ("reply", "openai/owl", 6), ("reply", MODEL, 5)],
    ids=["another kind of call", "another model", "the assembler before"],
)
def test_what_was_measured_of_something_else_corrects_nothing(
    kind: str, model: str, assembler: int
) -> None:
    limits = find_limits(build_state(reply=MEASURED), kind, model, assembler)
    assert (limits.counting.counter.factor, limits.model_limit) == (1.0, None)


BY_MODEL = 7
"""The assembler that corrects the counts of each model; the one before, of the latest only."""


@pytest.mark.parametrize(
    ("model", "assembler", "factor"),
    [
        (MODEL, BY_MODEL, 3.5),
        ("openai/owl", BY_MODEL, 2.0),
        (MODEL, BY_MODEL - 1, 1.0),
        ("openai/owl", BY_MODEL - 1, 2.0),
    ],
)
def test_models_that_take_turns_each_keep_what_was_measured(
    model: str, assembler: int, factor: float
) -> None:
    owl = replace(MEASURED, model="openai/owl", factor=2.0)
    state = replace(build_state(), corrections={"reply": {MODEL: MEASURED, owl.model: owl}})
    limits = find_limits(state, "reply", model, assembler)
    assert limits.counting.counter.factor == factor


def test_summarising_call_without_a_budget_never_drops_what_it_is_to_summarise() -> None:
    refused = replace(MEASURED, counter="chars/4")
    limits = find_limits(build_state(summarise=refused), "summarise", MODEL)
    assert limits.budget is not None
    assert limits.budget.ladder == ()
    assert limits.model_limit == ModelLimit(700, 800)


def test_text_over_the_fixed_limit_by_the_provider_count_is_refused_when_it_is_submitted() -> None:
    fixed = {"query": {"tokens": 300, "fixed": True}}
    material = build_material(build_summarising_blueprint(components=fixed))
    text = "x" * 100

    def check(state: SessionState) -> None:
        check_turn_text(material, state, text, {}, MODEL, context_tokens=None)

    check(build_state())
    with pytest.raises(Refused) as refused:
        check(build_state(reply=MEASURED))
    assert refused.value.detail == (
        "350 tokens (counts times 3.5, as its provider counts) do not fit component query, "
        "which has 300"
    )


TRIMMED: list[dict[str, Any]] = [
    {"trim": {"layer": "input", "chars": [100]}},
    {"drop_oldest_pairs": {}},
]


@pytest.mark.parametrize(
    ("text", "media_tokens", "context_tokens", "window", "refused"),
    [
        (700, 0, 600, {}, "text: 700 tokens of the turn do not fit the 600"),
        (600, 0, 600, {}, None),
        (400, 250, 600, {}, "text: 400 tokens of the turn and 250 of its parts do not fit the 600"),
        (100, 900, 600, {}, "parts: 100 tokens of the turn and 900 of its parts do not fit"),
        (0, 900, 600, {}, "parts: 0 tokens of the turn and 900 of its parts do not fit the 600"),
        (700, 0, None, {}, None),
        (2_500, 0, None, {}, None),
        (700, 0, 600, {"ladder": TRIMMED}, None),
        (700, 601, 600, {"ladder": TRIMMED}, "parts: 0 tokens of the turn and 601"),
    ],
)
def test_turn_larger_than_the_stated_context_is_refused_unless_a_step_may_shorten_it(
    text: int,
    media_tokens: int,
    context_tokens: int | None,
    window: dict[str, Any],
    refused: str | None,
) -> None:
    material = build_material(build_summarising_blueprint(**window))

    def check(**corrections: CountCorrection) -> None:
        check_turn_size(
            material=material,
            state=build_state(**corrections),
            text="x" * text,
            media_tokens=media_tokens,
            inputs={},
            model=MODEL,
            context_tokens=context_tokens,
        )

    if refused is None:
        check()
        check(reply=MEASURED)  # The prompt is counted without what may be wrong
        return
    with pytest.raises(Refused) as raised:
        check()
    assert f"{raised.value.field}: {raised.value.detail}".startswith(refused)
    assert "choose a model with more room" in (raised.value.fix or "")


@pytest.mark.parametrize(
    ("budget", "context_tokens", "expected"),
    [(None, None, None), (None, 900, 900), (400, None, 400), (400, 900, 400), (900, 400, 400)],
)
def test_tool_may_be_as_large_as_budget_and_context_of_the_model_both_allow(
    budget: int | None, context_tokens: int | None, expected: int | None
) -> None:
    plain = build_loop_blueprint().model_dump(mode="json", by_alias=True, exclude_unset=True)
    if budget is not None:
        plain["calls"]["converse"]["budget"] = "window"
        plain["budget"] = {"window": {"tokens": budget, "counter": {"chars_per_token": 4}}}
    blueprint = Blueprint.model_validate(plain)
    (profile,) = blueprint.profiles
    limit = find_definition_limit(build_material(blueprint), profile, context_tokens=context_tokens)
    assert (limit and limit.tokens) == expected
