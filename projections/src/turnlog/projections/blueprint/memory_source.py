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

from turnlog.projections.blueprint.document import document
from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint, Remark, located
from turnlog.projections.blueprint.memory import MemoryPolicy
from turnlog.projections.blueprint.wording import remarks_on

MOST_TOLD: Final = 5
"""Maximum number of warnings for one file; the session's first event records them."""
_DEFAULTS: Final[JsonValue] = MemoryPolicy().model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """A memory policy, and the warnings about its file."""

    policy: MemoryPolicy
    warnings: tuple[str, ...] = ()


def read_policy(text: str, file: str) -> ReadPolicy:
    """Load a memory policy; return the defaults with warnings if anything is wrong."""
    if faults := faults_in(text, file):
        return instead(*map(str, faults))
    return ReadPolicy(_merged(document(text, file).value))


def faults_in(text: str, file: str) -> tuple[Fault, ...]:
    """Return all faults of a memory policy file."""
    try:
        written = document(text, file)
    except FaultyBlueprint as faulty:
        return faulty.faults
    found = (located(file, written.lines, remark) for remark in _remarks(written.value))
    return (*written.faults, *found)


def instead(*faults: str) -> ReadPolicy:
    """Return the default policy with a warning for each of the first faults."""
    told = tuple(f"{fault}; the defaults stand in" for fault in faults[:MOST_TOLD])
    return ReadPolicy(MemoryPolicy(), told)


def _remarks(value: JsonValue) -> Iterator[Remark]:
    try:
        _merged(value)
    except ValidationError as error:
        yield from remarks_on(error, MemoryPolicy)


def _merged(value: JsonValue) -> MemoryPolicy:
    # Strict and from JSON, so that "8" is not a number while lists may become tuples.
    return MemoryPolicy.model_validate_json(json.dumps(_over(_DEFAULTS, value)), strict=True)


def _over(defaults: JsonValue, value: JsonValue) -> JsonValue:
    """Merge a value over defaults, mapping by mapping; any other value replaces the default."""
    if value is None:
        return defaults
    if not isinstance(defaults, dict) or not isinstance(value, dict):
        return value
    return {**defaults, **{name: _over(defaults.get(name), said) for name, said in value.items()}}
