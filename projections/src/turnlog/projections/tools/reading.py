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

_DECODER: Final = json.JSONDecoder()
_BETWEEN: Final = re.compile(r"[ \t\r]*(\n\s*|\Z)")
"""The separator between two values, and after the last one."""
DEEP: Final = 4
"""Maximum depth at which members are searched."""
WHOLE: Final = ""
"""The name of a value that is not inside an object."""


def members_of(result: str) -> Mapping[str, JsonValue] | None:
    """Return the members of a result by their dotted paths; None if it has none."""
    try:
        values = [*_values(result.strip())]
    except (ValueError, RecursionError):
        return None
    match values:
        case [dict() as found]:
            return dict(_leaves(found))
        case [list() as rows]:
            return {WHOLE: rows}
        case [] | [_]:
            return None
        case _:
            return {WHOLE: values}


def _values(text: str) -> Iterator[JsonValue]:
    """Yield one value after the other; raise `ValueError`."""
    at = 0
    while at < len(text):
        value, end = _DECODER.raw_decode(text, at)
        between = _BETWEEN.match(text, end)
        if between is None:
            raise ValueError(text[end : end + 1])
        at = between.end()
        yield value


def _leaves(
    found: Mapping[str, JsonValue], above: str = "", deep: int = DEEP
) -> Iterator[tuple[str, JsonValue]]:
    for name, value in found.items():
        if isinstance(value, dict) and value and deep:
            yield from _leaves(value, f"{above}{name}.", deep - 1)
        else:
            yield f"{above}{name}", value
