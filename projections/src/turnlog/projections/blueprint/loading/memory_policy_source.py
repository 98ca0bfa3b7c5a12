"""Loads a memory policy: a file of the operator, merged with the defaults.

A missing or faulty file gives the defaults, which remember nothing, and a warning: an unreadable
policy must never expose more than a readable one. Only an unknown key is no reason for that: it is
left out with a warning, and the known keys apply.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, ValidationError

from turnlog.projections.blueprint.loading.validation_messages import explain_validation_error
from turnlog.projections.blueprint.loading.yaml_document import load_yaml
from turnlog.projections.blueprint.schema.history_specs import MemoryPolicy
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    BlueprintFinding,
    DocumentPath,
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
    """Load a memory policy; return the defaults with warnings if a value of it cannot be used."""
    faults = find_memory_policy_faults(text, file)
    if not faults:
        return LoadedMemoryPolicy(_merge_with_defaults(load_yaml(text, file).value))
    if policy := _load_known_keys(text, file):
        return LoadedMemoryPolicy(policy, _format_warnings(faults, "it is left out"))
    return build_default_policy(*faults)


def find_memory_policy_faults(text: str, file: str) -> tuple[BlueprintFault, ...]:
    """Return all faults of a memory policy file, by line."""
    try:
        written = load_yaml(text, file)
    except FaultyBlueprint as faulty:
        return faulty.faults
    found = (
        locate_finding(file, written.lines, finding)
        for finding in _find_policy_findings(written.value)
    )
    return tuple(sorted((*written.faults, *found), key=lambda fault: fault.line))


def build_default_policy(*faults: BlueprintFault | str) -> LoadedMemoryPolicy:
    """Return the default policy with a warning for each of the first faults."""
    return LoadedMemoryPolicy(MemoryPolicy(), _format_warnings(faults, "the defaults stand in"))


def _format_warnings(faults: Sequence[BlueprintFault | str], consequence: str) -> tuple[str, ...]:
    return tuple(f"{fault}; {consequence}" for fault in faults[:MAX_POLICY_WARNINGS])


def _load_known_keys(text: str, file: str) -> MemoryPolicy | None:
    """Return the policy without its unknown keys, or None if anything else is wrong with it."""
    try:
        document = load_yaml(text, file)
    except FaultyBlueprint:
        return None
    if document.faults:
        return None
    try:
        return _merge_with_defaults(document.value)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    if any(each["type"] != "extra_forbidden" for each in errors):
        return None
    return _merge_with_defaults(_remove_keys(document.value, {each["loc"] for each in errors}))


def _remove_keys(
    value: JsonValue, paths: Collection[DocumentPath], at: DocumentPath = ()
) -> JsonValue:
    """Return the value without the keys at these paths."""
    if not isinstance(value, dict):
        return value
    return {
        name: _remove_keys(inner, paths, (*at, name))
        for name, inner in value.items()
        if (*at, name) not in paths
    }


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
        **{name: _merge_values(defaults.get(name), item) for name, item in value.items()},
    }
