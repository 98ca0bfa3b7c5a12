"""Faults of summarised history views, reported before a session opens."""

from __future__ import annotations

import pytest

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
    ("ladder: [{drop_oldest", "ladder: [{summarise: {}}, {drop_oldest", "the ladder of component"),
]


def test_a_view_like_another_is_summed_up_by_the_words_of_that_one() -> None:
    blueprint = load_blueprint_source(TEXT).blueprint
    summary = blueprint.resolve_view("short").summary
    assert summary is not None
    assert (summary.above_tokens, summary.keep_messages) == (4_000, 6)
    assert blueprint.find_summary_view("short") == "chat"


@pytest.mark.parametrize(("right", "wrong", "fault"), FAULTS)
def test_a_summary_that_cannot_be_had_is_named_before_any_session_opens(
    right: str, wrong: str, fault: str
) -> None:
    with pytest.raises(FaultyBlueprint) as faulty:
        load_blueprint_source(TEXT.replace(right, wrong))
    assert fault in "\n".join(map(str, faulty.value.faults))
