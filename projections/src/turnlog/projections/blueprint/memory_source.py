"""The source of a memory policy: a file of an operator's, merged over the defaults.

One that is missing or faulty gives the defaults, which remember nothing, and says what is wrong:
a policy that nobody can read must not tell more than one that can be read.
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
"""Faults that are told of one file, since they stand in the session's first event."""
_DEFAULTS: Final[JsonValue] = MemoryPolicy().model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """A policy, and what was wrong with the file it should have come from."""

    policy: MemoryPolicy
    warnings: tuple[str, ...] = ()


def read_policy(text: str, file: str) -> ReadPolicy:
    """Read what an operator wrote; the defaults where anything in it is wrong."""
    if faults := faults_in(text, file):
        return instead(*map(str, faults))
    return ReadPolicy(_merged(document(text, file).value))


def faults_in(text: str, file: str) -> tuple[Fault, ...]:
    """Name everything that is wrong with what an operator wrote."""
    try:
        written = document(text, file)
    except FaultyBlueprint as faulty:
        return faulty.faults
    found = (located(file, written.lines, remark) for remark in _remarks(written.value))
    return (*written.faults, *found)


def instead(*faults: str) -> ReadPolicy:
    """Give the defaults, and say of the first faults that they stand in."""
    told = tuple(f"{fault}; the defaults stand in" for fault in faults[:MOST_TOLD])
    return ReadPolicy(MemoryPolicy(), told)


def _remarks(value: JsonValue) -> Iterator[Remark]:
    try:
        _merged(value)
    except ValidationError as error:
        yield from remarks_on(error, MemoryPolicy)


def _merged(value: JsonValue) -> MemoryPolicy:
    # Strict, and by way of JSON: "8" is no number, and lists may become tuples.
    return MemoryPolicy.model_validate_json(json.dumps(_over(_DEFAULTS, value)), strict=True)


def _over(defaults: JsonValue, value: JsonValue) -> JsonValue:
    """Lay a value over defaults, block by block; what is no block replaces what was there."""
    if value is None:
        return defaults
    if not isinstance(defaults, dict) or not isinstance(value, dict):
        return value
    return {**defaults, **{name: _over(defaults.get(name), said) for name, said in value.items()}}
