"""Validation of JSON bodies: only what every JSON reader understands in the same way.

Python's parser accepts NaN, duplicate keys, lone surrogates and integers of any length, which other
readers of the log may reject. So each body is checked once before any other code reads it. The
first fault is reported with its field.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Final, cast

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.blueprint.storable_json import MAX_INT, check_text

MAX_DIGITS: Final = 32
"""The maximum number of digits of an integer that is parsed at all."""

_WHOLE_BODY: Final = "body"


class _JsonObject(dict[str, Any]):
    """A JSON object, and the first key that it repeats."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated_key = _find_repeated_key(pairs) if len(self) < len(pairs) else None


def _find_repeated_key(pairs: list[tuple[str, Any]]) -> str:
    counts = Counter(key for key, _ in pairs)
    return next(key for key, times in counts.items() if times > 1)


def _parse_integer(digits: str) -> float:
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


_BODY_DECODER: Final = json.JSONDecoder(object_pairs_hook=_JsonObject, parse_int=_parse_integer)
"""Accepts repeated keys and numbers without end, so that they are refused with their field."""


def check_strict_json(body: bytes) -> None:
    """Raise `Refused` for a body that is not strict JSON: `bad-json`, or the fault of a value.

    Its size was checked while it came.
    """
    try:
        value = parse_json(body, max_size=len(body), decoder=_BODY_DECODER, as_written=True)
    except InvalidJson as error:
        raise _create_refusal(error) from None
    _check_value(value, "")


def _create_refusal(error: InvalidJson) -> Refused:
    if error.reason == "too-deep":
        path = ".".join(format_sent_name(str(step)) for step in error.path)
        field = path or _WHOLE_BODY
        return Refused(error.reason, str(error), field=field, fix="send it as text")
    if error.reason == "too-many":
        fix = "send it in several requests"
        return Refused("too-many-values", str(error), field=_WHOLE_BODY, fix=fix)
    return Refused("bad-json", str(error), field=_WHOLE_BODY, fix="send one JSON object in UTF-8")


def _check_value(value: object, path: str) -> None:
    match value:
        case str():
            check_text(value, path or _WHOLE_BODY)
        case int() | float() if not _is_portable_number(value):
            fix = f"stay within {MAX_INT}, or send it as text"
            detail = "JSON parsers do not agree on its value"
            raise Refused("bad-number", detail, field=path or _WHOLE_BODY, fix=fix)
        case list():
            for place, item in enumerate(cast("list[object]", value)):
                _check_value(item, _join_path(path, str(place)))
        case _JsonObject():
            _check_object(value, path)
        case _:
            pass


def _is_portable_number(value: float) -> bool:
    return abs(value) <= MAX_INT if isinstance(value, int) else math.isfinite(value)


def _check_object(value: _JsonObject, path: str) -> None:
    for key, item in value.items():
        field = _join_path(path, format_sent_name(check_text(key, path or _WHOLE_BODY)))
        if key == value.repeated_key:
            raise Refused("duplicate-key", "the key is repeated", field=field, fix="send it once")
        _check_value(item, field)


def _join_path(path: str, step: str) -> str:
    return f"{path}.{step}" if path else step
