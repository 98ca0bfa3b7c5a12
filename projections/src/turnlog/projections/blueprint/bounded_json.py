"""The one reader of JSON that strangers send: callers, models, tools, providers and bundles.

Texts that no event can hold are replaced, unless the reader refuses them itself.

Python's parser recurses once a level, and so does most code that walks what it returns: a few
kilobytes of brackets end either with `RecursionError`, anywhere in a process. A few megabytes of
them are millions of objects, for whose parsing no other thread gets the interpreter. Here size,
depth and number of values are bounded, and there is one error, whose message never repeats the
text, which may be secret.

`model_validate_json` needs no help: pydantic's parser has its own limit of depth.
"""

from __future__ import annotations

import json
import math
from typing import Final, Literal, NoReturn

from pydantic import JsonValue

from turnlog.events.storable_text import is_storable, replace_unstorable_texts

MAX_JSON_NESTING: Final = 64
"""Maximum nesting of objects and arrays; whatever walks a value may recurse that often."""

MAX_JSON_SIZE: Final = 16 * 1024 * 1024
"""Maximum bytes, or characters of a text, where the caller does not name a limit of its own."""

MAX_JSON_VALUES: Final = 400_000
"""Maximum number of values in a text, which parse in about a tenth of a second."""

InvalidJsonReason = Literal["syntax", "too-deep", "too-large", "too-many", "duplicate-key"]


class InvalidJson(ValueError):
    """A text that is not JSON, or more of it than is read; the message repeats none of it."""

    def __init__(
        self, reason: InvalidJsonReason, detail: str, path: tuple[str | int, ...] = ()
    ) -> None:
        super().__init__(detail)
        self.reason: InvalidJsonReason = reason
        self.path = path
        """The value that is nested too deep; empty where it is not known."""


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


def _parse_finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError
    return number


STRICT_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_finite)
"""Accepts no NaN and no infinite number, which other readers of JSON refuse."""


def parse_json(
    raw: str | bytes,
    *,
    max_size: int = MAX_JSON_SIZE,
    decoder: json.JSONDecoder = STRICT_DECODER,
    as_written: bool = False,
) -> JsonValue:
    """Parse a whole text, or raise `InvalidJson`.

    `as_written` keeps texts that no event can hold, for a caller that refuses them by name.
    """
    if len(raw) > max_size:
        raise InvalidJson("too-large", f"it is larger than {max_size}")
    try:
        text = raw if isinstance(raw, str) else raw.decode()
        check_value_count(text)
        value: JsonValue = decoder.decode(text)
    except InvalidJson:
        raise
    except (ValueError, RecursionError) as error:
        raise _convert_error(error) from None
    if text.count("[") + text.count("{") > MAX_JSON_NESTING:
        _check_nesting(value)
    return value if as_written else _make_storable(value, text)


def _make_storable(value: JsonValue, text: str) -> JsonValue:
    """Replace what no event can hold; only an escape can say it in a text that is storable."""
    is_suspect = "\\u" in text or not is_storable(text)
    return replace_unstorable_texts(value) if is_suspect else value


def parse_embedded_json(
    text: str, at: int, *, decoder: json.JSONDecoder = STRICT_DECODER, as_written: bool = False
) -> tuple[JsonValue, int]:
    """Parse the value that begins at an index, and return it with its end.

    Raises `json.JSONDecodeError` where the text is not JSON, with the index, and `InvalidJson` for
    everything else. `as_written` is that of `parse_json`.
    """
    try:
        value, end = decoder.raw_decode(text, at)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise _convert_error(error) from None
    if text.count("[", at, end) + text.count("{", at, end) > MAX_JSON_NESTING:
        _check_nesting(value)
    return value if as_written else _make_storable(value, text[at:end]), end


def check_value_count(text: str) -> None:
    """Raise `InvalidJson` before a text of too many values is parsed.

    Each value follows a comma or opens what is around it. Those within strings are left out only
    where a text may have too many; in steps, so that other threads run in between.
    """
    if len(text) <= MAX_JSON_VALUES or _count_separators(text, 0, len(text)) < MAX_JSON_VALUES:
        return
    plain = text.replace("\\\\", "").replace('\\"', "")
    total = at = 0
    for _ in range(2 * MAX_JSON_VALUES):  # A member's key is a string too
        begin = plain.find('"', at)
        total += _count_separators(plain, at, len(plain) if begin < 0 else begin)
        if total >= MAX_JSON_VALUES:
            break
        at = plain.find('"', begin + 1) + 1 if begin >= 0 else 0
        if at == 0:
            return
    raise InvalidJson("too-many", f"it has more than {MAX_JSON_VALUES} values")


def _count_separators(text: str, start: int, end: int) -> int:
    return sum(text.count(separator, start, end) for separator in ",[{")


def _convert_error(error: ValueError | RecursionError) -> InvalidJson:
    match error:
        case RecursionError():
            return _create_depth_error()
        case UnicodeDecodeError():
            return InvalidJson("syntax", f"byte {error.start} is not UTF-8")
        case json.JSONDecodeError():
            place = f"line {error.lineno} column {error.colno}"
            return InvalidJson("syntax", f"{error.msg} at {place}")
        case _:
            return InvalidJson("syntax", "a number in it is none that JSON can hold")


def _create_depth_error(path: tuple[str | int, ...] = ()) -> InvalidJson:
    return InvalidJson("too-deep", f"it is nested more than {MAX_JSON_NESTING} deep", path)


def _check_nesting(value: JsonValue) -> None:
    """Raise `InvalidJson` for a value that is nested too deep, without recursion."""
    level = [value]
    for _ in range(MAX_JSON_NESTING):
        level = [inner for each in level for _, inner in _list_inner_values(each)]
        if not level:
            return
    raise _create_depth_error(_find_deep_path(value))


def _find_deep_path(value: JsonValue) -> tuple[str | int, ...]:
    """Return the path of the first value beyond the limit."""
    left: list[tuple[JsonValue, tuple[str | int, ...]]] = [(value, ())]
    while len(left[-1][1]) < MAX_JSON_NESTING:
        outer, path = left.pop()
        left += [(inner, (*path, step)) for step, inner in reversed(_list_inner_values(outer))]
    return left[-1][1]


def _list_inner_values(value: JsonValue) -> list[tuple[str | int, JsonValue]]:
    """Return the objects and lists of an object or a list, with their keys or indexes."""
    match value:
        case dict():
            return [(key, each) for key, each in value.items() if isinstance(each, dict | list)]
        case list():
            return [(at, each) for at, each in enumerate(value) if isinstance(each, dict | list)]
        case _:
            return []


def _build_unique_object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidJson("duplicate-key", "a key is repeated within an object")
    return found


UNIQUE_DECODER: Final = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_float=_parse_finite,
    object_pairs_hook=_build_unique_object,
)
"""Accepts no repeated key either: two readers of the text could see two values."""


def parse_tool_arguments(written: str) -> dict[str, JsonValue] | None:
    """Parse the arguments of a tool call; none are an empty object.

    None if they are no object, or repeat a key.
    """
    return _parse_object(written, UNIQUE_DECODER)


def parse_recorded_arguments(written: str) -> dict[str, JsonValue] | None:
    """Parse arguments as every release did: the last of repeated keys counts."""
    return _parse_object(written, STRICT_DECODER)


def _parse_object(written: str, decoder: json.JSONDecoder) -> dict[str, JsonValue] | None:
    try:
        found = parse_json(written or "{}", decoder=decoder)
    except InvalidJson:
        return None
    return found if isinstance(found, dict) else None
