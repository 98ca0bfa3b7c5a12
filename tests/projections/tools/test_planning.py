"""Parsing a plan: what is left out is reported."""

from __future__ import annotations

from turnlog.projections.structured.fitting import fitted
from turnlog.projections.tools.planning import PLAN, Intended, plan_in


def test_a_step_that_names_tools_is_not_done_by_an_earlier_result() -> None:
    written = (
        '{"steps": [{"goal": "pay", "from": "r2", "tools": ["pay"]},'
        ' {"goal": "tell", "from": "r2", "tools": ["none"]}]}'
    )
    planned = plan_in(fitted(written, PLAN), {"pay"}, 8, {"r2": 5})
    assert planned.steps == (Intended("pay", ("pay",)), Intended("tell", (), 5))
    assert planned.repairs == (
        "steps.0: `from` beside tools, left out",
        "steps.1: there is no tool 'none'",
    )
