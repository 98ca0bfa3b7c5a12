"""Validation of JSON bodies: only what every JSON reader understands in the same way.

Python's parser accepts NaN, duplicate keys, lone surrogates and integers of any length, which other
readers of the log may reject. So each body is checked once before any other code reads it. The
first fault is reported with its field.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Final, cast

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.storable_json import MAX_INT, check_text

MAX_DEPTH: Final = 64
"""The maximum nesting of objects and arrays."""

MAX_DIGITS: Final = 32
"""The maximum number of digits of an integer that is parsed at all."""

_WHOLE_BODY: Final = "body"


@dataclass(frozen=True, slots=True)
class _JsonObject:
    """A JSON object with all its key-value pairs, duplicates included."""

    pairs: list[tuple[str, object]]


def check_strict_json(body: bytes) -> None:
    """Raise `Refused` for a body that is not strict JSON: `bad-json`, or the fault of a value."""
    try:
        text = body.decode()
        value: object = json.loads(text, object_pairs_hook=_JsonObject, parse_int=_parse_integer)
    except UnicodeDecodeError as error:
        raise _create_syntax_refusal(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _create_syntax_refusal(
            f"{error.msg} at line {error.lineno} column {error.colno}"
        ) from None
    except RecursionError:
        raise _create_depth_refusal(_WHOLE_BODY) from None
    _check_value(value, "", 0)


def _parse_integer(digits: str) -> float:
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


def _create_syntax_refusal(detail: str) -> Refused:
    return Refused("bad-json", detail, field=_WHOLE_BODY, fix="send one JSON object in UTF-8")


def _create_depth_refusal(field: str) -> Refused:
    detail = f"it is nested more than {MAX_DEPTH} deep"
    return Refused("too-deep", detail, field=field, fix="send it as text")


def _check_value(value: object, path: str, depth: int) -> None:
    match value:
        case str():
            check_text(value, path or _WHOLE_BODY)
        case int() | float() if not _is_portable_number(value):
            fix = f"stay within {MAX_INT}, or send it as text"
            detail = "readers of JSON disagree about it"
            raise Refused("bad-number", detail, field=path or _WHOLE_BODY, fix=fix)
        case list() | _JsonObject() if depth == MAX_DEPTH:
            raise _create_depth_refusal(path)
        case list():
            for place, item in enumerate(cast("list[object]", value)):
                _check_value(item, _join_path(path, str(place)), depth + 1)
        case _JsonObject(pairs=pairs):
            _check_object(pairs, path, depth)
        case _:
            pass


def _is_portable_number(value: float) -> bool:
    return abs(value) <= MAX_INT if isinstance(value, int) else math.isfinite(value)


def _check_object(pairs: list[tuple[str, object]], path: str, depth: int) -> None:
    seen: set[str] = set()
    for key, item in pairs:
        field = _join_path(path, check_text(key, path or _WHOLE_BODY)[:80])
        if key in seen:
            raise Refused("duplicate-key", "the key is repeated", field=field, fix="send it once")
        seen.add(key)
        _check_value(item, field, depth + 1)


def _join_path(path: str, step: str) -> str:
    return f"{path}.{step}" if path else step
