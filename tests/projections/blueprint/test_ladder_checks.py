"""Faults of ladders, segments and typed inputs, reported before a session opens."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.blueprint.schema.budget_specs import InputLimit, resolve_limit
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint
from turnlog.projections.blueprint.validation.input_values import build_values_schema, check_values
from turnlog.services.extensions.plugins import check_plugins_registered

TEXT = """\
blueprint: master
version: 1
attributes: {place: {type: id}, locale: {type: locale}, level: {type: int}}
inputs:
  people: {type: list, of: {who: id, tier: {type: int, min: 0}}}
  state: {type: text}
  tokens: {type: int, min: 1}
layers:
  core: {segments: {scope: core}, keep: always}
  people:
    each: inputs.people
    heading: "Who: {who}"
    segments: {scope: people, ref: item.who, tier: item.tier, except: [cue]}
  state: {input: state}
calls:
  tell: {messages: [{user: [core, people, state, input], form: fenced}], budget: prompt}
forms: {fenced: {open: "<{layer}>", close: "</{layer}>"}}
budget:
  prompt:
    tokens: {default: 900, input: tokens}
    sections: {people: {tokens: 90, ladder: [{lower_tier: {layer: people}}]}}
    ladder:
      - replace: {layer: people, with: {type: cue}}
      - trim: {layer: state, chars: [80]}
segments: {locale: [attributes.locale, en]}
profiles: {one: {default: true, call: tell}}
"""

FAULTS = [
    ("form: fenced}]", "form: fencd}]", "form: there is no form `fencd`; write `fenced`"),
    ("input: state}", "input: stat}", "there is no input `stat`; write `state`"),
    ("ref: item.who", "ref: item.whom", "`item.whom` does not exist; write `item.who`"),
    ("tier: item.tier", "tier: item.who", "segments.tier: `item.who` is of type id"),
    ("each: inputs.people", "each: inputs.state", "each: `inputs.state` is of type text"),
    ('"Who: {who}"', '"Who: {name}"', "no item says `name`"),
    ("input: tokens}", "input: state}", "may be something else than a number from 1 on"),
    ("{layer: state, chars", "{layer: core, chars", "`core` is always kept"),
    ("{layer: state, chars", "{layer: people, chars", "made of segments"),
    ("with: {type: cue}", "with: {type: cues}", "type `cues` stand in `people` already"),
    ("[{lower_tier: {layer: people}}]", "[{drop: {layer: state}}]", "cannot make room in section"),
    ("- trim: {layer: state, chars: [80]}", "- trimm: {}", "`trimm` means nothing here"),
    ("chars: [80]}", "charz: [80]}", "`charz` means nothing here; write `chars`"),
    ("locale: [attributes.locale", "locale: [attributes.level", "`attributes.level` is of type"),
    ("type: text}", "type: text, min: 1}", "type text has no `min`; write `min_length`"),
    ("min: 0}", "min: 4, max: 2}", "it is less than min 4"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "instead", "message"), FAULTS)
def test_ladder_fault_is_reported_with_its_line(written: str, instead: str, message: str) -> None:
    assert written in TEXT
    with pytest.raises(FaultyBlueprint) as faulty:
        load_blueprint_source(TEXT.replace(written, instead))
    line = next(n for n, each in enumerate(TEXT.splitlines(), 1) if written.splitlines()[0] in each)
    assert any(message in str(fault) for fault in faulty.value.faults), faulty.value.faults
    assert any(fault.line == line for fault in faulty.value.faults)


def test_budget_set_by_a_turn_input_makes_the_reach_unlimited() -> None:
    blueprint = load_blueprint_source(TEXT).blueprint
    limit = blueprint.budget["prompt"].tokens
    assert isinstance(limit, InputLimit)
    assert (resolve_limit(limit, {}), resolve_limit(limit, {"tokens": 7})) == (900, 7)
    looking_back = TEXT.replace("messages: [", "messages: [{history: all}, ").replace(
        "forms:", "history: {all: {}}\nforms:"
    )
    assert compute_history_reach(load_blueprint_source(looking_back).blueprint) == 0


def test_each_item_of_a_list_is_checked_and_its_schema_is_generated() -> None:
    inputs = load_blueprint_source(TEXT).blueprint.inputs
    values: dict[str, JsonValue] = {"people": [{"who": "a", "tier": 1}, {"who": "b"}]}
    assert check_values(inputs, values, "inputs") == values
    with pytest.raises(Refused) as refused:
        check_values(inputs, {"people": [{"tier": 1}]}, "inputs")
    assert (refused.value.code, refused.value.field) == ("missing-value", "inputs.people.0.who")
    schema = build_values_schema(inputs)["properties"]
    assert isinstance(schema, dict)
    assert schema["people"] == {
        "type": "array",
        "items": build_values_schema(inputs["people"].of or {}),
    }


def test_unregistered_step_is_refused_before_a_session_opens() -> None:
    step = "registered: {name: nobodys, layer: state}"
    blueprint = load_blueprint_source(
        TEXT.replace("trim: {layer: state, chars: [80]}", step)
    ).blueprint
    with pytest.raises(Refused) as refused:
        check_plugins_registered(blueprint)
    assert refused.value.code == "unknown-step"
