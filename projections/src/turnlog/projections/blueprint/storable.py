"""Which texts and values can be recorded at all.

An event is JSON that every reader must understand alike and that Postgres must take. What is
refused here would otherwise fail later, when somebody else holds it.
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
"""All values given at once, as JSON."""
MAX_DEPTH: Final = 16
MAX_INT: Final = 2**53 - 1
"""Beyond it, JSON readers disagree about a whole number."""
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> bool:
    """Tell whether a text holds neither NUL nor a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def mended(text: str) -> str:
    """Replace what cannot be stored, in a text that nobody can be asked to send again."""
    return _UNSTORABLE.sub("\ufffd", text)


def checked_text(text: str, field: str) -> str:
    """Return a text, or refuse it naming `field`."""
    if not storable(text):
        raise Refused(
            "bad-text",
            "NUL and lone surrogates cannot be stored",
            field=field,
            fix="take the character out",
        )
    return text


def checked_json(given: Mapping[str, JsonValue], field: str) -> None:
    """Refuse what is too large or too deep, and every text or number that cannot be stored."""
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
