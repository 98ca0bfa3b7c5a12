"""Condenses the arguments of a tool call for the prompts of later rounds of its turn.

They stay a JSON object with the names of its members: providers take nothing else, and a model that
reads its own calls goes on in their form. A line in the place of what is left out says how much it
is. The result for the same arguments and limits never changes: it is the rule `arguments-1` of
recorded prompts.
"""

from __future__ import annotations

import json
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.events.model.manifest import ArgumentLimits
from turnlog.projections.blueprint.bounded_json import parse_recorded_arguments

ArgumentForm = Literal["summary", "sample", "digest"]
"""How much is left of arguments; the words are those for results."""

ARGUMENT_LIMITS: Final[dict[ArgumentForm, ArgumentLimits]] = {
    "summary": ArgumentLimits(characters=400, items=20),
    "sample": ArgumentLimits(characters=60, items=3),
    "digest": ArgumentLimits(characters=0, items=0),
}

_NOTE_ROOM: Final = 40
"""Characters by which a text may exceed its limit, and of a list that stays whole: about as many as
the line in their place has.
"""

_MEMBER_ROOM: Final = 8
"""Members of an object beyond the limit of items, since their names say what the call was."""

_MAX_DIGEST: Final = 1_000
"""Most characters of arguments of which no text is left."""

_LEFT_OUT: Final = "(left out)"
"""The name of the member that says how many others are left out."""


def condense_arguments(written: str, limits: ArgumentLimits) -> str:
    """Return the arguments of a call, a JSON object, with their long values cut.

    The result may be longer where nothing in them is long.
    """
    condensed = _encode(_condense_value(parse_recorded_arguments(written) or {}, limits))
    if not limits.characters and len(condensed) > _MAX_DIGEST:
        return _encode({_LEFT_OUT: _format_note(len(written), "characters")})
    return condensed


def _condense_value(value: JsonValue, limits: ArgumentLimits) -> JsonValue:
    match value:
        case str() if len(value) > limits.characters + _NOTE_ROOM:
            note = _format_note(len(value) - limits.characters, "characters")
            return f"{value[: limits.characters]}\n{note}" if limits.characters else note
        case list() if not _is_short(value):
            kept: list[JsonValue] = [
                _condense_value(each, limits) for each in value[: limits.items]
            ]
            rest = len(value) - len(kept)
            return [*kept, _format_note(rest, "items")] if rest else kept
        case dict():
            most = limits.items + _MEMBER_ROOM
            left = {name: _condense_value(each, limits) for name, each in [*value.items()][:most]}
            rest = len(value) - most
            return {**left, _LEFT_OUT: _format_note(rest, "members")} if rest > 0 else left
        case _:
            return value


def _is_short(items: list[JsonValue]) -> bool:
    return len(items) < _NOTE_ROOM and len(_encode(items)) <= _NOTE_ROOM


def _format_note(number: int, what: str) -> str:
    return f"({number} {what} are left out)"


def _encode(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
