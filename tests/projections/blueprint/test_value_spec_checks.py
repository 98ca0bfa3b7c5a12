"""What a blueprint may say of the values of its attributes and inputs."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.schema.blueprint_model import compute_blueprint_digest
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

TEXT = """\
blueprint: quiz
version: 1
attributes:
  level: {type: text}
layers:
  persona: {text: "Ask me."}
calls:
  reply: {messages: [{system: [persona]}, {user: [input]}]}
profiles:
  chat: {default: true, call: reply}
"""


def replace_spec(spec: str) -> str:
    return TEXT.replace("{type: text}", spec)


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("{type: text, enum: [a, b, a]}", "enum.2: `a` is listed twice; keep one"),
        ("{type: text, enum: []}", "enum: it is empty; write at least one"),
        ("{type: text, enum: [1]}", "enum.0: `1` is not text; write text"),
        ("{type: int, enum: [1, two]}", "enum.1: `two` is not a whole number within"),
        ("{type: int, enum: [true]}", "enum.0: it must be text or a whole number"),
        ("{type: int, max: 3, enum: [2, 4]}", "enum.1: `4` is not a whole number up to 3"),
        ("{type: id, enum: [a/b]}", "enum.0: `a/b` is not an id"),
        ("{type: bool, enum: [a]}", "enum: a value of type bool has no `enum`; leave it out"),
        ("{type: text, enum: [easy], default: hard}", "default: the default is not one of: easy"),
        ("{type: text, enun: [easy]}", "enun: `enun` means nothing here; write `enum`"),
        ("{type: text, max: 9}", "max: a value of type text has no `max`; write `max_length`"),
        (
            "{type: int, max_length: 9}",
            "max_length: a value of type int has no `max_length`",
        ),
        ("{type: id, min_length: 9, max_length: 8}", "max_length: it is less than min_length 9"),
        ("{type: text, max_length: -1}", "max_length: it must be greater than or equal to 0"),
        ("{type: text, pattern: '(?=a)b'}", "pattern: look-ahead and look-behind cannot be"),
        ("{type: text, pattern: 'a)(b'}", "pattern: it is no pattern: "),
        ("{type: text, pattern: '(?x)a # b'}", "pattern: it is no pattern: "),
        ("{type: text, pattern: a+, max_length: 5000}", "max_length: a value with a pattern has"),
        ("{type: text, pattern: a+, default: b}", "default: the default is not text, at most 4096"),
        ("{type: list, of: {a: {type: text, enum: [x, x]}}}", "of.a.enum.1: `x` is listed twice"),
    ],
)
def test_contradictory_value_spec_is_a_fault_at_its_line(spec: str, fault: str) -> None:
    with pytest.raises(FaultyBlueprint) as faulty:
        load_blueprint_source(replace_spec(spec))
    assert str(faulty.value.faults[0]).startswith(f"blueprint.yaml:4: attributes.level.{fault}")


@pytest.mark.parametrize(
    "spec",
    [
        "{type: text, enum: [on, 'no', \"1\"], default: on}",
        "{type: locale, enum: [lt, en], default: lt}",
        "{type: int, min: 1, enum: [1, 2]}",
        "{type: id, pattern: 'ord-\\d+', min_length: 5, max_length: 9}",
        "{type: text, pattern: '(?i)yes|no', max_length: 4096}",
    ],
)
def test_consistent_value_spec_is_accepted(spec: str) -> None:
    load_blueprint_source(replace_spec(spec))


def test_blueprint_without_value_constraints_keeps_its_digest() -> None:
    digest = compute_blueprint_digest(load_blueprint_source(TEXT).blueprint)
    assert digest == ("sha256:467c341e5c29be0affe287ce9b7cc592bad96922cac10b5f37dfd043ee519fea")
