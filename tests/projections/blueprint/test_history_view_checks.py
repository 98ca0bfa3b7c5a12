"""Faults of summarised history views, reported before a session opens."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.ladder_words import describe_ladders
from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

TEXT = """\
blueprint: talker
version: 1
layers:
  rules: {text: Be brief.}
  sum_up: {text: Sum up what was said.}
calls:
  reply:
    messages: [{system: [rules]}, {history: chat}, {user: [input]}]
    budget: window
  summarise: {messages: [{history: older}, {user: [sum_up]}]}
history:
  chat: {summary: {call: summarise}}
  short: {like: chat, max_turns: 9}
  older: {of: selected}
budget:
  window:
    tokens: 8000
    components: {history: {tokens: 3000, ladder: [{summarise: {}}, {drop_oldest_pairs: {}}]}}
    ladder: [{drop_oldest_pairs: {}}]
profiles: {talk: {default: true, call: reply}}
"""

FAULTS = [
    ("call: summarise", "call: sumarise", "there is no call `sumarise`; write `summarise`"),
    ("{history: older}", "{history: short}", "the call `summarise` shows no turns to sum up"),
    ("{history: chat}", "{history: older}", "no view is summed up by this call"),
    ("chat: {summary", "chat: {last_messages: 1, summary", "be greater than or equal to 2"),
    ("chat: {summary", "chat: {memory: narrator, summary", "must not be told by a summary"),
    ("chat: {summary: {call: summarise}}", "chat: {}", "no view that it means is ever summed up"),
    (
        "components: {history",
        "sections: {rules: {tokens: 9, ladder: [{summarise: {}}]}}\n    components: {history",
        "a summary makes room in component `history`, or in the whole",
    ),
    (
        "{talk: {default: true, call: reply}}",
        "{talk: {default: true, program: tools, plan: plan, act: act, call: reply}}",
        "`reply` is not the first call of its turn, so nobody knows yet what is too long",
    ),
]


def test_view_based_on_another_uses_the_summary_of_that_view() -> None:
    blueprint = load_blueprint_source(TEXT).blueprint
    summary = blueprint.resolve_view("short").summary
    assert summary is not None
    assert (summary.above_tokens, summary.keep_messages) == (None, 6), "its ladder has a limit"
    assert blueprint.find_summary_view("short") == "chat"


@pytest.mark.parametrize(("right", "wrong", "fault"), FAULTS)
def test_invalid_summary_configuration_is_a_fault(right: str, wrong: str, fault: str) -> None:
    with pytest.raises(FaultyBlueprint) as faulty:
        load_blueprint_source(TEXT.replace(right, wrong))
    assert fault in "\n".join(map(str, faulty.value.faults))


LIMITED = TEXT.replace("{call: summarise}", "{call: summarise, above_tokens: 4000}")
"""The view has a limit of its own beside that of its component."""


def test_a_view_with_a_limit_of_its_own_is_not_summarised_by_the_limit_of_the_whole() -> None:
    whole = LIMITED.replace(
        "    ladder: [{drop_oldest", "    ladder: [{summarise: {}}, {drop_oldest"
    )
    with pytest.raises(FaultyBlueprint) as faulty:
        load_blueprint_source(whole)
    (fault,) = faulty.value.faults
    assert fault.path == "budget.window.ladder.0.summarise"
    assert "`chat` is summarised above 4000 tokens of its own" in fault.what


def test_step_applied_before_its_preceding_summary_triggers_is_a_warning() -> None:
    assert load_blueprint_source(TEXT).list_warnings() == ()
    (warning,) = load_blueprint_source(LIMITED).list_warnings()
    assert warning.severity == "warning"
    assert warning.path == "budget.window.components.history.ladder.0.summarise"
    assert warning.what == (
        "the steps after it are taken above 3000 tokens, and `chat` is summarised above 4000 only"
    )
    enough = LIMITED.replace("{history: {tokens: 3000", "{history: {tokens: 4000")
    assert load_blueprint_source(enough).list_warnings() == ()


def test_ladders_are_described_in_step_order() -> None:
    found = load_blueprint_source(TEXT).blueprint
    history, whole = describe_ladders(found)
    assert history == (
        "window, component history above 3,000 tokens: have a model summarise chat, "
        "then drop the oldest turns, then leave it to the whole"
    )
    assert whole == (
        "window, the whole prompt above 8,000 tokens: drop the oldest turns, then refuse the call"
    )
    own = describe_ladders(load_blueprint_source(LIMITED).blueprint)
    assert "have a model summarise chat (above 4,000 tokens of it), then" in own[0]
