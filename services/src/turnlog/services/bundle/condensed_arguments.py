"""Condenses the arguments of tool calls by the rule `arguments-1`, as recorded prompts have them.

A bundle's `verify.py` has this module in it, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

SURROGATE_OR_NUL = re.compile("[\0\ud800-\udfff]")
NOTE_ROOM = 40
MEMBER_ROOM = 8
MAX_DIGEST = 1_000


def condense_arguments(written: str, limits: Mapping[str, Any]) -> str:
    """Return arguments with their long values cut, or as one note where even that is long."""
    characters, items = int(limits["characters"]), int(limits["items"])
    condensed = write_json(cut_value(make_storable(json.loads(written)), characters, items))
    if characters == 0 and len(condensed) > MAX_DIGEST:
        return write_json({"(left out)": f"({len(written)} characters are left out)"})
    return condensed


def make_storable(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    if isinstance(value, str):
        return SURROGATE_OR_NUL.sub("\ufffd", value)
    if isinstance(value, list):
        return [make_storable(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {make_storable(name): make_storable(each) for name, each in members.items()}
    return value


def cut_value(value: Any, characters: int, items: int) -> Any:  # noqa: ANN401 - any value of JSON
    if isinstance(value, str):
        return cut_text(value, characters)
    if isinstance(value, list):
        return cut_list(cast("list[object]", value), characters, items)
    if isinstance(value, dict):
        return cut_object(cast("dict[str, Any]", value), characters, items)
    return value


def cut_text(text: str, characters: int) -> str:
    if len(text) <= characters + NOTE_ROOM:
        return text
    note = f"({len(text) - characters} characters are left out)"
    return f"{text[:characters]}\n{note}" if characters else note


def cut_list(values: list[Any], characters: int, items: int) -> list[Any]:
    if len(values) < NOTE_ROOM and len(write_json(values)) <= NOTE_ROOM:
        return values
    kept = [cut_value(each, characters, items) for each in values[:items]]
    rest = len(values) - len(kept)
    return [*kept, f"({rest} items are left out)"] if rest else kept


def cut_object(members: dict[str, Any], characters: int, items: int) -> dict[str, Any]:
    most = items + MEMBER_ROOM
    left = {name: cut_value(members[name], characters, items) for name in [*members][:most]}
    if len(members) > most:
        left["(left out)"] = f"({len(members) - most} members are left out)"
    return left


def write_json(value: Any) -> str:  # noqa: ANN401 - any value of JSON
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
