"""Schemas of tools as they are sent to servers that refuse `$ref`: each reference written out.

A bundle's `verify.py` has this module in it, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

MAX_WRITTEN = 5_000  # Objects and lists that are written out
DEFINITIONS = ("$defs", "definitions")


def inline_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool whose parameters have no references."""
    function = tool.get("function")
    if isinstance(function, dict):
        named = cast("dict[str, Any]", function)
        root = named.get("parameters")
        if isinstance(root, dict):
            written = write_out(cast("dict[str, Any]", root), root, [], [0])
            bare = {word: each for word, each in written.items() if word not in DEFINITIONS}
            return {**tool, "function": {**named, "parameters": bare}}
    return tool


def write_out(value: Any, root: Any, path: list[str], written: list[int]) -> Any:  # noqa: ANN401
    """Return a value without references; `path` has those that led here."""
    if isinstance(value, list):
        written[0] += 1
        return [write_out(each, root, path, written) for each in cast("Sequence[Any]", value)]
    if not isinstance(value, dict):
        return value
    written[0] += 1
    schema = cast("dict[str, Any]", value)
    reference = schema.get("$ref")
    is_reference = isinstance(reference, str)
    own: dict[str, Any] = {}
    for word, each in schema.items():
        if word == "$ref" and is_reference:
            continue
        if value is root and word in DEFINITIONS:
            continue
        own[word] = write_out(each, root, path, written)
    if not is_reference or reference in path or written[0] >= MAX_WRITTEN:
        return own
    target = write_out(follow(str(reference), root), root, [*path, str(reference)], written)
    return {**cast("dict[str, Any]", target), **own} if isinstance(target, dict) else own


def follow(reference: str, root: Any) -> Any:  # noqa: ANN401
    """Return what a reference within a schema refers to; None if there is nothing."""
    start, *steps = reference.split("/")
    found = root if start == "#" else None
    for step in steps:
        name = step.replace("~1", "/").replace("~0", "~")
        found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    return found
