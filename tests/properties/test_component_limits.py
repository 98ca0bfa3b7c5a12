"""A component keeps to its limit, or its required layers are refused by name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.generators.session_strategies import fewer_examples
from tests.support.sessions.prompt_assembly import (
    assemble_next_prompt,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.model.manifest import Manifest
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.testing import SessionScenario, build_exchange, submit_turn

TEXT = """\
blueprint: guide
version: 1
layers:
  base: {{file: base.md}}
  notes: {{text: "{notes}", component: notes}}
calls:
  reply:
    messages: [{{system: [base, notes]}}, {{history: recent}}, {{user: [input]}}]
    budget: window
history: {{recent: {{}}}}
budget:
  window:
    tokens: 10000
    components:
      system_prompt: {{tokens: {fixed}, fixed: true}}
      notes:
        tokens: {some}
        ladder: [{{trim: {{layer: notes, chars: [40, 8]}}}}, {{drop: {{layer: notes}}}}]
      history: {{tokens: {some}, ladder: [{{drop_oldest_pairs: {{}}}}]}}
      query: {{tokens: {fixed}, fixed: true}}
profiles: {{chat: {{default: true, call: reply}}}}
"""

LONG = st.integers(0, 120).map(lambda length: "word " * length)

FEW = st.integers(1, 60)


@fewer_examples
@given(
    base=LONG,
    notes=LONG,
    talk=st.lists(st.tuples(LONG, LONG), max_size=4),
    text=LONG,
    fixed=FEW,
    some=FEW,
)
def test_component_stays_within_its_limit(
    base: str, notes: str, talk: list[tuple[str, str]], text: str, fixed: int, some: int
) -> None:
    blueprint = parse_blueprint(TEXT.format(notes=notes or "none", fixed=fixed, some=some))
    files = {"base": base}
    turns = [
        step for question, answer in talk for step in build_exchange(question or "?", answer or "!")
    ]
    session = open_with_blueprint(blueprint, files).apply_steps(*turns, submit_turn(text or "?"))
    found = assemble_or_refuse(session, blueprint, files)
    if isinstance(found, BudgetExceeded):
        assert found.of.component in {"system_prompt", "query"}
        assert found.tokens > found.limit == fixed
        assert f"component {found.of.component}" in found.detail
        return
    limits = {"system_prompt": fixed, "query": fixed, "notes": some, "history": some}
    for component, limit in limits.items():
        taken = [part.tokens for part in found.parts if part.component == component]
        assert sum(taken) <= limit
    for step in found.steps:
        assert step.before > some >= 0
        assert step.component in {"notes", "history"}


def assemble_or_refuse(
    session: SessionScenario, blueprint: Blueprint, files: dict[str, str]
) -> Manifest | BudgetExceeded:
    try:
        return assemble_next_prompt(session, blueprint, files).manifest
    except BudgetExceeded as over:
        return over
