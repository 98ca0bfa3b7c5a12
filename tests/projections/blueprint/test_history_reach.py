from __future__ import annotations

from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach

TWO_CALLS = """\
blueprint: two
version: 1
layers: {persona: {text: "You."}}
calls:
  reply:
    messages: [{history: recent}, {user: [input]}]
    budget: small
  debrief:
    messages: [{history: whole}]
history: {recent: {}, whole: {all: true}}
budget:
  small: {tokens: 10, counter: {chars_per_token: 3}}
  large: {tokens: 100}
profiles: {chat: {default: true, call: reply}}
"""


def read_blueprint(before: str = "", after: str = "") -> Blueprint:
    return load_blueprint_source(TWO_CALLS.replace(before, after)).blueprint


def test_reach_of_a_window_is_its_budget_in_characters() -> None:
    assert compute_history_reach(read_blueprint()) == 30


def test_reach_is_that_of_the_largest_window() -> None:
    wider = "    messages: [{history: recent}]\n    budget: large"
    assert compute_history_reach(read_blueprint("    messages: [{history: whole}]", wider)) == 400


def test_reach_is_unlimited_if_one_window_has_no_budget() -> None:
    assert compute_history_reach(read_blueprint("{history: whole}", "{history: recent}")) == 0


def test_reach_is_unlimited_if_no_call_includes_history() -> None:
    assert compute_history_reach(read_blueprint("{history: recent}, ", "")) == 0
