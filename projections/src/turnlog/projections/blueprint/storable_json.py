"""Rules for texts and JSON values that may be recorded in events.

An event is JSON that every reader must parse alike and that Postgres must accept. Values are
checked at the edge, because an unstorable value would otherwise fail later in another process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import encode_canonical
from turnlog.events.errors import Refused, TooLarge
from turnlog.events.storable_text import is_storable
from turnlog.projections.blueprint.sent_names import format_sent_name

JsonObject = dict[str, JsonValue]

MAX_JSON_BYTES: Final = 100_000
"""Limit on the JSON text of all values of one request together, in UTF-8 as events have it."""

MAX_JSON_DEPTH: Final = 16

MAX_INT: Final = 2**53 - 1
"""JSON readers disagree about whole numbers beyond this one."""


def cut_text(text: str, max_characters: int) -> str:
    """Return a text, or the beginning of one that is longer and a mark that it goes on."""
    return text if len(text) <= max_characters else f"{text[:max_characters]}..."


def check_text(text: str, field: str) -> str:
    """Return the text; raise `Refused` naming `field` if it cannot be stored."""
    if not is_storable(text):
        raise Refused(
            "bad-text",
            "NUL and lone surrogates cannot be stored",
            field=field,
            fix="remove the character",
        )
    return text


def check_json(
    values: Mapping[str, JsonValue], field: str, most_bytes: int = MAX_JSON_BYTES
) -> None:
    """Raise if the values are too large, too deep, or contain something that cannot be stored.

    Raises `TooLarge` for the size and `Refused` for everything else, naming the path below `field`.
    """
    if not values:
        return  # As in nearly every turn, for each of its fields
    _check_json_value(dict(values), field, 0)
    if (size := len(encode_canonical(dict(values)).encode())) > most_bytes:
        raise TooLarge(field, size, most_bytes)


def _check_json_value(value: JsonValue, field: str, depth: int) -> None:
    match value:
        case str():
            check_text(value, field)
        case int() if abs(value) > MAX_INT:
            fix = f"stay within {MAX_INT}, or send it as text"
            raise Refused("bad-number", "the number is too large", field=field, fix=fix)
        case float() if not math.isfinite(value):
            raise Refused(
                "bad-number", f"{value} is not a number of JSON", field=field, fix="leave it out"
            )
        case list() | dict() if depth == MAX_JSON_DEPTH:
            detail = f"it is nested more than {MAX_JSON_DEPTH} deep"
            raise Refused("too-deep", detail, field=field, fix="send it as text")
        case list():
            for place, item in enumerate(value):
                _check_json_value(item, f"{field}.{place}", depth + 1)
        case dict():
            for key, item in value.items():
                step = format_sent_name(check_text(key, field))
                _check_json_value(item, f"{field}.{step}", depth + 1)
        case _:
            pass
