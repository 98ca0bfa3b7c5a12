"""The tools of plan steps, cut to what the call of a step has room for."""

from __future__ import annotations

from turnlog.projections.blueprint.token_counters import CharacterCounter
from turnlog.projections.tools.parsed_plan import ParsedPlan, ParsedStep
from turnlog.projections.tools.step_tools import StepToolRoom, fit_step_tools

ROOM = StepToolRoom(100, {"a": 40, "b": 60, "c": 10, "d": 95}, CharacterCounter(1))


def fit(*steps: ParsedStep) -> ParsedPlan:
    return fit_step_tools(ParsedPlan(steps, ("earlier",)), ROOM)


def test_steps_whose_tools_fit_are_unchanged() -> None:
    steps = (ParsedStep("go", ("a", "c")), ParsedStep("go", ("c",)))
    assert fit(*steps) == ParsedPlan(steps, ("earlier",))


def test_later_tools_that_do_not_fit_are_omitted_from_their_step() -> None:
    found = fit(ParsedStep("go", ("a", "b", "c")))
    assert found.steps == (ParsedStep("go", ("a", "c")),)
    assert found.repairs == (
        "earlier",
        "steps.0: b with 60 tokens left out, a call of the step has room for 98",
    )


def test_goal_of_a_step_counts_towards_its_limit() -> None:
    assert fit(ParsedStep("g" * 40, ("b",))).steps == (ParsedStep("g" * 40, ("b",)),)
    assert fit(ParsedStep("g" * 41, ("b", "c"))).steps == (ParsedStep("g" * 41, ("c",)),)


def test_a_step_that_names_no_tools_is_offered_those_that_fit() -> None:
    found = fit(ParsedStep("g"))
    assert found.steps == (ParsedStep("g", ("a", "c")),)
    assert found.repairs[1].startswith("steps.0: b and 1 more with 155 tokens left out")


def test_step_whose_tools_all_exceed_the_limit_is_omitted() -> None:
    found = fit(ParsedStep("g" * 10, ("d",)), ParsedStep("go", ("a",)))
    assert found.steps == (ParsedStep("go", ("a",)),)
    assert found.repairs[-1] == "steps.0: left out, none of its tools has room"


def test_step_satisfied_by_a_prior_result_is_always_kept() -> None:
    step = ParsedStep("go", (), result_sequence=7)
    assert fit(step).steps == (step,)
