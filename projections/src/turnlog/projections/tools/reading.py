"""Reading: what a tool's result holds, by name, if it is JSON.

Servers give one value, or one after the other on lines of their own, and many put the rows that
were asked for some way down in an object. What is not JSON from its first character to its last
is a text, and nothing is read out of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

_DECODER: Final = json.JSONDecoder()
_BETWEEN: Final = re.compile(r"[ \t\r]*(\n\s*|\Z)")
"""What stands between two values, and behind the last."""
DEEP: Final = 4
"""How far down members are looked for."""
WHOLE: Final = ""
"""The name of what is not in an object."""


def members_of(result: str) -> Mapping[str, JsonValue] | None:
    """Give the members of a result by their paths; none where it has no members."""
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
    """Read one value after the other; raises `ValueError`."""
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
