from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    FaultyBlueprint,
)
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

GOOD = (SHIPPED_BLUEPRINTS / "assistant/blueprint.yaml").read_text()
WORDS = sorted({word.strip("{}[],:") for word in GOOD.split()})
PIECES = st.sampled_from([*WORDS, "{", "}", "[", "]", ":", "- ", "&a", "*a", "!x", '"', "\n", "\0"])


def assert_parsed_or_faulted(text: str) -> None:
    """Require that any text gives a blueprint, or faults at lines of the text."""
    blueprint, faults = parse_or_fault(text)
    lines = len(text.splitlines()) + 1
    assert all(1 <= fault.line <= lines and fault.what and fault.fix for fault in faults)
    if blueprint is None:
        assert faults
    else:
        assert Blueprint.model_validate_json(encode_blueprint(blueprint)) == blueprint


def parse_or_fault(text: str) -> tuple[Blueprint | None, tuple[BlueprintFault, ...]]:
    try:
        return load_blueprint_source(text).blueprint, ()
    except FaultyBlueprint as faulty:
        return None, faulty.faults


@given(st.integers(0, len(GOOD)), st.integers(0, 12), st.lists(PIECES, max_size=4).map(" ".join))
def test_mistyped_blueprint_is_parsed_or_reported_with_faults(
    at: int, removed_length: int, typed: str
) -> None:
    assert_parsed_or_faulted(GOOD[:at] + typed + GOOD[at + removed_length :])


@given(st.text(max_size=60))
def test_any_text_is_parsed_as_a_blueprint_or_reported_with_faults(text: str) -> None:
    assert_parsed_or_faulted(text)


ANYTHING: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner),
    max_leaves=12,
)


@pytest.mark.slow("many generated cases are tried")
@given(st.dictionaries(st.sampled_from(sorted(Blueprint.model_fields)), ANYTHING))
def test_any_json_document_is_parsed_as_a_blueprint_or_reported_with_faults(
    shape: dict[str, JsonValue],
) -> None:
    assert_parsed_or_faulted(json.dumps(shape))
