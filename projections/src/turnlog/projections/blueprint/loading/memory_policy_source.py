"""Loads a memory policy: a file of the operator, merged with the defaults.

A missing or faulty file gives the defaults, which remember nothing, and a warning: an unreadable
policy must never expose more than a readable one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, ValidationError

from turnlog.projections.blueprint.loading.validation_messages import explain_validation_error
from turnlog.projections.blueprint.loading.yaml_document import load_yaml
from turnlog.projections.blueprint.schema.history_specs import MemoryPolicy
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    BlueprintFinding,
    FaultyBlueprint,
    locate_finding,
)

MAX_POLICY_WARNINGS: Final = 5
"""Maximum number of warnings for one file; the session's first event records them."""

_DEFAULT_POLICY: Final[JsonValue] = MemoryPolicy().model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class LoadedMemoryPolicy:
    """A memory policy, and the warnings about its file."""

    policy: MemoryPolicy
    warnings: tuple[str, ...] = ()


def load_memory_policy(text: str, file: str) -> LoadedMemoryPolicy:
    """Load a memory policy; return the defaults with warnings if anything is wrong."""
    if faults := find_memory_policy_faults(text, file):
        return build_default_policy(*map(str, faults))
    return LoadedMemoryPolicy(_merge_with_defaults(load_yaml(text, file).value))


def find_memory_policy_faults(text: str, file: str) -> tuple[BlueprintFault, ...]:
    """Return all faults of a memory policy file."""
    try:
        written = load_yaml(text, file)
    except FaultyBlueprint as faulty:
        return faulty.faults
    found = (
        locate_finding(file, written.lines, remark)
        for remark in _find_policy_findings(written.value)
    )
    return (*written.faults, *found)


def build_default_policy(*faults: str) -> LoadedMemoryPolicy:
    """Return the default policy with a warning for each of the first faults."""
    told = tuple(f"{fault}; the defaults stand in" for fault in faults[:MAX_POLICY_WARNINGS])
    return LoadedMemoryPolicy(MemoryPolicy(), told)


def _find_policy_findings(value: JsonValue) -> Iterator[BlueprintFinding]:
    try:
        _merge_with_defaults(value)
    except ValidationError as error:
        yield from explain_validation_error(error, MemoryPolicy)


def _merge_with_defaults(value: JsonValue) -> MemoryPolicy:
    # Strict and from JSON, so that "8" is not a number while lists may become tuples.
    return MemoryPolicy.model_validate_json(
        json.dumps(_merge_values(_DEFAULT_POLICY, value)), strict=True
    )


def _merge_values(defaults: JsonValue, value: JsonValue) -> JsonValue:
    """Merge a value over defaults, mapping by mapping; any other value replaces the default."""
    if value is None:
        return defaults
    if not isinstance(defaults, dict) or not isinstance(value, dict):
        return value
    return {
        **defaults,
        **{name: _merge_values(defaults.get(name), said) for name, said in value.items()},
    }
