"""Rules for texts and JSON values that may be recorded in events.

An event is JSON that every reader must parse alike and that Postgres must accept. Values are
checked at the edge, because an unstorable value would otherwise fail later in another process.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnlog.events.errors import Refused, TooLarge

MAX_CHARACTERS: Final = 100_000
"""Limit on the JSON text of all values of one request together."""
MAX_DEPTH: Final = 16
MAX_INT: Final = 2**53 - 1
"""JSON readers disagree about whole numbers beyond this one."""
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> bool:
    """Return whether a text contains neither NUL nor a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def mended(text: str) -> str:
    """Replace unstorable characters by U+FFFD, for texts that no caller can correct."""
    return _UNSTORABLE.sub("\ufffd", text)


def checked_text(text: str, field: str) -> str:
    """Return the text; raise `Refused` naming `field` if it cannot be stored."""
    if not storable(text):
        raise Refused(
            "bad-text",
            "NUL and lone surrogates cannot be stored",
            field=field,
            fix="take the character out",
        )
    return text


def checked_json(given: Mapping[str, JsonValue], field: str) -> None:
    """Raise if the values are too large, too deep, or contain something that cannot be stored.

    Raises `TooLarge` for the size and `Refused` for everything else, naming the path below `field`.
    """
    _walk(dict(given), field, 0)
    if (size := len(json.dumps(given))) > MAX_CHARACTERS:
        raise TooLarge(field, size, MAX_CHARACTERS)


def _walk(value: JsonValue, field: str, depth: int) -> None:
    match value:
        case str():
            checked_text(value, field)
        case int() if abs(value) > MAX_INT:
            fix = f"stay within {MAX_INT}, or send it as text"
            raise Refused("bad-number", "the number is too large", field=field, fix=fix)
        case float() if not math.isfinite(value):
            raise Refused("bad-number", f"{value} is no JSON", field=field, fix="leave it out")
        case list() | dict() if depth == MAX_DEPTH:
            detail = f"it is nested more than {MAX_DEPTH} deep"
            raise Refused("too-deep", detail, field=field, fix="send it as text")
        case list():
            for place, item in enumerate(value):
                _walk(item, f"{field}.{place}", depth + 1)
        case dict():
            for key, item in value.items():
                _walk(item, f"{field}.{checked_text(key, field)[:80]}", depth + 1)
        case _:
            pass
