"""Parsing a plan: what is left out is reported."""

from __future__ import annotations

from turnlog.projections.structured_output.json_repair import validate_answer
from turnlog.projections.tools.parsed_plan import PLAN_SCHEMA, ParsedStep, parse_plan


def test_plan_step_that_names_tools_is_not_satisfied_by_a_prior_result() -> None:
    written = (
        '{"steps": [{"goal": "pay", "from": "r2", "tools": ["pay"]},'
        ' {"goal": "tell", "from": "r2", "tools": ["none"]}]}'
    )
    planned = parse_plan(validate_answer(written, PLAN_SCHEMA), {"pay": "pay"}, 8, {"r2": 5})
    assert planned.steps == (ParsedStep("pay", ("pay",)), ParsedStep("tell", (), 5))
    assert planned.repairs == (
        "steps.0: `from` beside tools, left out",
        "steps.1: there is no tool 'none'",
    )
