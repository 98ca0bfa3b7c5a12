"""Schemas of tools as they are sent to servers that refuse `$ref`: each reference written out.

A bundle's `verify.py` has this module in it, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

MAX_WRITTEN = 5_000  # Objects and lists that are written out; what is long counts for more
COUNTED_AS_ONE = 100  # Characters of a text or of the names of an object, or entries of a list
MAX_DEPTH = 64  # How deep a reference is followed
DEFINITIONS = ("$defs", "definitions")


def inline_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool whose parameters have no references."""
    function = tool.get("function")
    if isinstance(function, dict):
        named = cast("dict[str, Any]", function)
        root = named.get("parameters")
        if isinstance(root, dict):
            written = write_out(cast("dict[str, Any]", root), root, [], [0, 0])
            bare = {word: each for word, each in written.items() if word not in DEFINITIONS}
            return {**tool, "function": {**named, "parameters": bare}}
    return tool


def write_out(value: Any, root: Any, path: list[str], written: list[int]) -> Any:  # noqa: ANN401
    """Return a value without references; `path` has those that led here.

    `written` has how much was written out, and how deep this value is.
    """
    if isinstance(value, str):
        written[0] += len(value) // COUNTED_AS_ONE
        return value
    if not isinstance(value, list | dict):
        return value
    written[1] += 1
    if isinstance(value, list):
        entries = cast("Sequence[Any]", value)
        written[0] += 1 + len(entries) // COUNTED_AS_ONE
        result: Any = [write_out(each, root, path, written) for each in entries]
    else:
        result = write_object(cast("dict[str, Any]", value), root, path, written)
    written[1] -= 1
    return result


def write_object(
    schema: dict[str, Any], root: object, path: list[str], written: list[int]
) -> dict[str, Any]:
    """Return an object without references, with what its own refers to."""
    written[0] += 1 + len("".join(schema)) // COUNTED_AS_ONE
    reference = schema.get("$ref")
    is_reference = isinstance(reference, str)
    own: dict[str, Any] = {}
    for word, each in schema.items():
        if word == "$ref" and is_reference:
            continue
        if schema is root and word in DEFINITIONS:
            continue
        own[word] = write_out(each, root, path, written)
    is_too_much = written[0] >= MAX_WRITTEN or written[1] > MAX_DEPTH
    if not is_reference or reference in path or is_too_much:
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
