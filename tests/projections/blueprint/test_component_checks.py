"""Faults of components and overrides, reported before a session opens."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.ladder_words import describe_ladders
from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

TEXT = """\
blueprint: agent
version: 1
prompts: {search: [prompts, .]}
layers:
  base: {override: {category: master_system, by: provider}, keep: always}
  manner: {override: {category: conversation_execution}}
  strategy: {override: {category: workflow_classification}}
  known: {text: Water is wet., component: facts}
  tools: {tools: all, component: tools_context}
calls:
  plan:
    messages: [{system: [base, strategy, known, tools]}, {history: chat}, {user: [input]}]
    budget: window
  tactic: {messages: [{system: [base]}, {user: [input]}], tools: [all], budget: window}
  reply: {messages: [{system: [base]}, {history: chat}, {user: [input]}], budget: window}
  converse: {messages: [{system: [base, manner]}, {history: chat}, {user: [input]}], budget: window}
history: {chat: {}}
tools: {servers: {shop: {command: [shop]}}}
budget:
  window:
    tokens: 8000
    components:
      system_prompt: {tokens: 1000, fixed: true}
      tools_context: {tokens: 2000, ladder: [{condense_tools: {layer: tools}}]}
      history: {tokens: 3000, ladder: [{condense_repeats: {}}, {drop_oldest_pairs: {}}]}
      rag_context: {tokens: 1000}
      query: {tokens: 1000, fixed: true}
    ladder: [{drop: {layer: known}}]
profiles:
  agent: {default: true, program: tools, plan: plan, act: tactic, call: reply}
  talk: {call: converse}
"""

FAULTS = [
    ("rag_context:", "rag_contxt:", "no layer is counted under `rag_contxt`; write `rag_context`"),
    ("query: {", "query: {ladder: [{trim: {layer: input, chars: [9]}}], ", "`query` is fixed, so"),
    ("{condense_repeats: {}}", "{condense_tools: {}}", "no layer of tools is counted under `his"),
    ("query: {tokens: 1000", "query: {tokens: 8001", "`query` may have more than the whole, whi"),
    ("{condense_tools: {layer: tools}}", "{drop: {layer: known}}", "no room in component `tools_c"),
    ("{condense_tools: {layer: tools}}", "{drop_oldest_pairs: {}}", "no room in component `tools_"),
    ("layer: tools}}", "layer: known}}", "`known` tells of no tools"),
    ("[{drop: {layer: known}}]", "[{drop: {layer: strategy}}]", "it would trim `"),
    ("[{drop: {layer: known}}]", "[{trim: {layer: input, chars: [9]}}]", "it would trim `query`"),
    (
        "ladder: [{drop: {layer: known}}]",
        "overflow: {tokens: 9000, ladder: [{drop: {layer: strategy}}]}",
        "it would trim `system_prompt`",
    ),
    ("    ladder: [{d", "    overflow: {tokens: 8000}\n    ladder: [{d", "8000 is not more than"),
    ("{chat: {}}", "{chat: {all: true}}", "`chat` is `all: true`, it is never cut"),
    ("[base, manner]", "[base, strategy]", "profile `talk` uses this call and has no `wor"),
    ("[base, strategy, known", "[base, manner, known", "`agent` uses this call and has no `con"),
    ("category: master_system", "category: master_sytem", "write `master_system`"),
]  # fmt: skip


OVERFLOW = "{tokens: 9000, ladder: [{drop_oldest_pairs: {keep_messages: 6}}]}"


def test_overflow_of_a_budget_is_described_after_its_ladder() -> None:
    text = TEXT.replace("    ladder: [{drop", f"    overflow: {OVERFLOW}\n    ladder: [{{drop")
    *_, whole, overflow = describe_ladders(load_blueprint_source(text).blueprint)
    assert whole == (
        "window, the whole prompt above 8,000 tokens: drop known, then let it have 9,000"
    )
    assert overflow == (
        "window, the whole prompt above 9,000 tokens: "
        "drop the oldest turns but the last 6 messages, then refuse the call"
    )


def test_budget_with_components_is_parsed() -> None:
    budget = load_blueprint_source(TEXT).blueprint.budget["window"]
    limits = {name: (each.tokens, each.fixed) for name, each in budget.components.items()}
    assert limits == {
        "system_prompt": (1_000, True),
        "tools_context": (2_000, False),
        "history": (3_000, False),
        "rag_context": (1_000, False),
        "query": (1_000, True),
    }
    assert [step.action_name for step in budget.steps] == [
        *("condense_tools", "condense_repeats", "drop_oldest_pairs", "drop")
    ]


@pytest.mark.parametrize(("before", "after", "fault"), FAULTS)
def test_component_fault_has_a_reason_and_a_fix(before: str, after: str, fault: str) -> None:
    assert before in TEXT
    with pytest.raises(FaultyBlueprint) as refused:
        load_blueprint_source(TEXT.replace(before, after))
    faults_text = "\n".join(str(each) for each in refused.value.faults)
    assert fault in faults_text.replace("cannot make room", "no room")


def test_prompt_files_are_searched_by_category_provider_and_profile() -> None:
    layers = list_prompt_layers(load_blueprint_source(TEXT).blueprint)
    assert {name: (layer.file, layer.search) for name, layer in layers.items()} == {
        "base": (
            "master_system.md",
            ("prompts/{provider}", "prompts", "./{provider}", "."),
        ),
        "base@agent": ("master_system.md", ("overrides/agent/{provider}", "overrides/agent")),
        "base@talk": ("master_system.md", ("overrides/talk/{provider}", "overrides/talk")),
        "manner": ("conversation_execution.md", ("prompts", ".")),
        "manner@talk": ("conversation_execution.md", ("overrides/talk",)),
        "strategy": ("workflow_classification.md", ("prompts", ".")),
        "strategy@agent": ("workflow_classification.md", ("overrides/agent",)),
    }
    assert [name for name, layer in layers.items() if layer.keep] == ["base"]
