"""Faults of phases in a blueprint."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

TEXT = """
blueprint: agent
version: 1
layers: {carried: {carry: phase}}
calls: {reply: {messages: [{system: [carried]}, {user: [input]}]}}
phases:
  order: [ideate, focus]
  can_see: {ideate: [ideate], focus: [ideate, focus]}
  carry: {forward: summary}
profiles: {chat: {default: true, call: reply}}
"""


@pytest.mark.parametrize(
    ("written", "instead", "fault"),
    [
        ("[ideate, focus]\n", "[ideate, focus, ideate]\n", "phases.order.2: `ideate` stands twice"),
        ("ideate: [ideate], ", "", "phases.can_see.ideate: `ideate` would not see its own turns"),
        ("focus: [ideate, focus]", "focus: [ideate]", "own turns; let `focus` see `focus`"),
        ("call: reply}}", "call: by_phase}}", "phases.calls: a profile calls `by_phase`, and no"),
        ("{system: [carried]}, ", "", "phases.carry.forward: no call produces the text to carry"),
    ],
)
def test_invalid_phases_are_faults(written: str, instead: str, fault: str) -> None:
    assert load_blueprint_source(TEXT).blueprint.phases
    assert written in TEXT
    with pytest.raises(FaultyBlueprint) as found:
        load_blueprint_source(TEXT.replace(written, instead))
    assert any(fault in str(each) for each in found.value.faults)


def test_can_see_is_optional_for_phases_without_isolation() -> None:
    text = TEXT.replace("  can_see: {ideate: [ideate], focus: [ideate, focus]}\n", "")
    assert load_blueprint_source(text).blueprint.phases
