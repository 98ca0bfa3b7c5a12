"""Condenses tool results for prompts, and describes the tool work of a turn.

A short result is included as it is. A long one is replaced by its shape: its members, the number of
rows of its table, their columns and a sample; for a text, its length and its beginning. Every part
has a length limit, whatever a server sends. The whole result is a blob that can be fetched.

A result has members if it is JSON from its first character to its last. Servers send one value, or
several on lines of their own, and often nest the rows in an object. Everything else is text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

_RESULT_DECODER: Final = json.JSONDecoder()
_VALUE_SEPARATOR: Final = re.compile(r"[ \t\r]*(\n\s*|\Z)")
"""The separator between two values, and after the last one."""
MAX_MEMBER_DEPTH: Final = 4
"""Maximum depth at which members are searched."""
WHOLE_RESULT: Final = ""
"""The name of a value that is not inside an object."""


def parse_members(result: str) -> Mapping[str, JsonValue] | None:
    """Return the members of a result by their dotted paths; None if it has none."""
    try:
        values = [*_iterate_values(result.strip())]
    except (ValueError, RecursionError):
        return None
    match values:
        case [dict() as found]:
            return dict(_iterate_leaves(found))
        case [list() as rows]:
            return {WHOLE_RESULT: rows}
        case [] | [_]:
            return None
        case _:
            return {WHOLE_RESULT: values}


def _iterate_values(text: str) -> Iterator[JsonValue]:
    """Yield one value after the other; raise `ValueError`."""
    at = 0
    while at < len(text):
        value, end = _RESULT_DECODER.raw_decode(text, at)
        between = _VALUE_SEPARATOR.match(text, end)
        if between is None:
            raise ValueError(text[end : end + 1])
        at = between.end()
        yield value


def _iterate_leaves(
    found: Mapping[str, JsonValue], above: str = "", deep: int = MAX_MEMBER_DEPTH
) -> Iterator[tuple[str, JsonValue]]:
    for name, value in found.items():
        if isinstance(value, dict) and value and deep:
            yield from _iterate_leaves(value, f"{above}{name}.", deep - 1)
        else:
            yield f"{above}{name}", value
