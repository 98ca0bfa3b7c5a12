"""The factor between a provider's token counts and ours: when it is measured, and how it moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.model.call_events import ContextOverflow
from turnlog.projections.session.token_counts import (
    CountCorrection,
    CountedPrompt,
    ModelLimit,
    correct_by_overflow,
    correct_by_usage,
)

PROMPT = CountedPrompt(
    call="3.1",
    kind="reply",
    model="openai/heron",
    counter="chars/4",
    factor=1.0,
    tokens=2_000,
    budget=8_000,
)

CORRECTION = CountCorrection(model="openai/heron", counter="chars/4", factor=3.5, measured_in="2.1")


def report(tokens: int) -> TokenUsage:
    return TokenUsage(known="reported", input_tokens=tokens, output_tokens=5)


def measure(
    reported: int, before: CountCorrection | None = None, prompt: CountedPrompt = PROMPT
) -> float:
    after = correct_by_usage(before, prompt, report(reported))
    return after.factor if after else 1.0


@pytest.mark.parametrize(
    ("reported", "factor"),
    [(2_000, 1.0), (1_200, 1.0), (2_100, 1.0), (2_101, 1.1), (7_000, 3.5), (7_001, 3.55)],
)
def test_factor_is_rounded_up_to_a_step_and_never_below_one(reported: int, factor: float) -> None:
    assert measure(reported) == factor


def test_factor_of_a_corrected_prompt_is_measured_by_its_uncorrected_count() -> None:
    corrected = replace(PROMPT, factor=3.5, tokens=7_000)
    assert measure(7_400, CORRECTION, corrected) == pytest.approx(3.7)
    assert measure(2_000, CORRECTION, corrected) == 1.0


@pytest.mark.parametrize(("reported", "factor"), [(6_900, 3.5), (6_700, 3.5), (6_600, 3.3)])
def test_factor_stays_while_the_next_one_is_close_below_it(reported: int, factor: float) -> None:
    corrected = replace(PROMPT, factor=3.5, tokens=7_000)
    assert measure(reported, CORRECTION, corrected) == factor


@pytest.mark.parametrize("reported", [64_001, 10**9])
def test_report_that_no_prompt_of_this_length_can_have_measures_nothing(reported: int) -> None:
    assert correct_by_usage(CORRECTION, PROMPT, report(reported)) is CORRECTION
    assert measure(64_000) == 32


def test_refusal_with_an_impossible_count_and_limit_limits_to_a_share_of_what_was_sent() -> None:
    after = correct_by_overflow(None, PROMPT, ContextOverflow(tokens=10**9, limit=1))
    assert (after.factor, after.measured_in) == (1.0, None)
    assert after.find_model_limit(is_retry=True) == ModelLimit(1_400, 1_999)


def test_accepted_prompt_disproves_limits_that_it_exceeds() -> None:
    named = correct_by_overflow(None, PROMPT, ContextOverflow(tokens=2_000, limit=300))
    assert correct_by_usage(named, replace(PROMPT, tokens=280), report(290)) is named
    accepted = correct_by_usage(named, PROMPT, report(2_050))
    assert accepted is not None
    assert accepted.find_model_limit(is_retry=False) is None
    assert accepted.refused_in is None
    unnamed = correct_by_overflow(None, PROMPT, None)
    shorter = correct_by_usage(unnamed, replace(PROMPT, tokens=1_999), report(1_999))
    assert shorter == unnamed
    accepted = correct_by_usage(unnamed, PROMPT, report(2_000))
    assert accepted is not None
    assert accepted.find_model_limit(is_retry=False) is None


@pytest.mark.parametrize(
    "prompt",
    [replace(PROMPT, tokens=0), replace(PROMPT, tokens=400), replace(PROMPT, budget=None)],
    ids=["empty", "short", "without a budget"],
)
def test_prompt_that_fills_little_of_its_budget_measures_nothing(prompt: CountedPrompt) -> None:
    assert correct_by_usage(CORRECTION, prompt, report(1_999)) is CORRECTION
    assert correct_by_usage(None, prompt, report(1_999)) is None


@pytest.mark.parametrize("reported", [2_500, 9_000, 10**9])
def test_short_prompt_to_which_a_server_adds_thousands_of_tokens_measures_nothing(
    reported: int,
) -> None:
    assert correct_by_usage(None, replace(PROMPT, tokens=100), report(reported)) is None
    assert measure(2_000, prompt=replace(PROMPT, tokens=500)) == 4


@pytest.mark.parametrize("reported", [999, 0])
def test_report_without_what_the_server_had_cached_measures_nothing(reported: int) -> None:
    corrected = replace(PROMPT, factor=3.5, tokens=7_000)
    assert correct_by_usage(CORRECTION, corrected, report(reported)) is CORRECTION


@pytest.mark.parametrize("known", ["estimated", "unknown"])
def test_only_reported_usage_measures(known: str) -> None:
    usage = TokenUsage.model_validate({"known": known, "input_tokens": 7_000})
    assert correct_by_usage(None, PROMPT, usage) is None


@pytest.mark.parametrize(
    "before",
    [replace(CORRECTION, model="openai/owl"), replace(CORRECTION, counter="chars/3")],
    ids=["model", "counter"],
)
def test_another_model_or_counter_is_measured_anew(before: CountCorrection) -> None:
    limited = replace(before, context_tokens=8_192)
    after = correct_by_usage(limited, PROMPT, report(2_000))
    assert after == CountCorrection(model="openai/heron", counter="chars/4")


def test_refusal_with_numbers_measures_the_factor_and_the_limit() -> None:
    after = correct_by_overflow(None, PROMPT, ContextOverflow(tokens=8_300, limit=8_000))
    assert (after.factor, after.measured_in, after.refused_in) == (4.15, "3.1", "3.1")
    assert after.find_model_limit(is_retry=False) == ModelLimit(7_000, 8_000)
    assert after.find_model_limit(is_retry=True) == ModelLimit(5_600, 8_000)


@pytest.mark.parametrize("is_retry", [False, True])
def test_refusal_without_numbers_limits_to_a_share_of_what_was_sent(*, is_retry: bool) -> None:
    after = correct_by_overflow(CORRECTION, replace(PROMPT, factor=3.5, tokens=7_000), None)
    assert (after.factor, after.measured_in) == (3.5, "2.1")
    assert after.find_model_limit(is_retry=is_retry) == ModelLimit(4_900, 6_999)
    higher = replace(after, factor=4.0)
    assert higher.find_model_limit(is_retry=is_retry) == ModelLimit(5_600, 7_999)


def test_refusal_that_names_the_limit_only_holds_to_both() -> None:
    after = correct_by_overflow(None, PROMPT, ContextOverflow(limit=8_192))
    assert after.find_model_limit(is_retry=True) == ModelLimit(1_400, 1_999)


def test_refusal_that_names_the_size_only_limits_to_a_share_of_it() -> None:
    after = correct_by_overflow(None, PROMPT, ContextOverflow(tokens=8_000))
    assert after.find_model_limit(is_retry=True) == ModelLimit(5_600, 7_999)


def test_later_refusal_names_the_limit_anew() -> None:
    first = correct_by_overflow(None, PROMPT, ContextOverflow(tokens=9_000, limit=8_192))
    later = correct_by_overflow(first, PROMPT, ContextOverflow(tokens=9_000, limit=4_096))
    assert later.find_model_limit(is_retry=False) == ModelLimit(3_584, 4_096)


def test_session_without_a_refusal_has_no_limit_of_its_model() -> None:
    assert CORRECTION.find_model_limit(is_retry=False) is None
