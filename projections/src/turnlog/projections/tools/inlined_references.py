"""Schemas of tools without references, for servers that refuse `$ref`.

Each reference is replaced by what it refers to. One that leads back to itself, one that leads
nowhere, one deeper than `MAX_INLINED_DEPTH` and whatever comes after `MAX_INLINED_VALUES` accepts
everything, so that a schema cannot grow without bound. The verifier of bundles has the same rule,
written independently.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

MAX_INLINED_VALUES: Final = 5_000
"""Objects and lists of a schema that are written out; a hundred characters count as one more, and
so do a hundred entries of a list.
"""

MAX_INLINED_DEPTH: Final = 64
"""How deep in objects and lists a reference is still followed."""

_DEFINITION_WORDS: Final = ("$defs", "definitions")
"""Words at the root of a schema that hold what references refer to."""


def inline_references(tool: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a tool in OpenAI's format whose parameters have no references; others unchanged."""
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("parameters"), dict):
        return tool
    schema = _ReferenceInliner(function["parameters"]).inline_root()
    return {**tool, "function": {**function, "parameters": schema}}


class _ReferenceInliner:
    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._count = 0

    def inline_root(self) -> JsonValue:
        whole = self._inline_value(self._root, (), 0)
        if isinstance(whole, dict):
            return {name: each for name, each in whole.items() if name not in _DEFINITION_WORDS}
        return whole

    def _inline_value(self, value: JsonValue, followed: tuple[str, ...], depth: int) -> JsonValue:
        """Return a value without references; `followed` are those that led to it."""
        self._count += _measure_value(value)
        if not isinstance(value, dict | list):
            return value
        below = depth + 1
        if isinstance(value, list):
            return [self._inline_value(each, followed, below) for each in value]
        own = {
            name: self._inline_value(each, followed, below)
            for name, each in value.items()
            if not (value is self._root and name in _DEFINITION_WORDS)
            and not (name == "$ref" and isinstance(each, str))
        }
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return own
        is_bounded = self._count < MAX_INLINED_VALUES and depth < MAX_INLINED_DEPTH
        if reference in followed or not is_bounded:
            return own
        inlined = self._inline_value(self._find_target(reference), (*followed, reference), below)
        return {**inlined, **own} if isinstance(inlined, dict) else own

    def _find_target(self, reference: str) -> JsonValue:
        """Return what a reference within the schema refers to; None if there is nothing."""
        start, *steps = reference.split("/")
        found = self._root if start == "#" else None
        for step in steps:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found


def _measure_value(value: JsonValue) -> int:
    """Return what a value counts, without those in it."""
    match value:
        case str():
            return len(value) // 100
        case list():
            return 1 + len(value) // 100
        case dict():
            return 1 + sum(map(len, value)) // 100
        case _:
            return 0
