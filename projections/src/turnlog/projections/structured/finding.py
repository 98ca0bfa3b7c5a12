"""Finding JSON in what a model wrote: around it there may be prose, a block of code, and dirt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NoReturn

from pydantic import JsonValue

_BLOCK: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)```", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_BEGINS: Final = re.compile(r"[{\[]")
_MOST_BEGINNINGS: Final = 64
"""How many places of a text are tried; prose has few brackets."""


class Unfit(ValueError):
    """An answer that does not have its form, and why; what it says is not repeated."""


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)


STRICT: Final = json.JSONDecoder(parse_constant=_refused)
_LENIENT: Final = json.JSONDecoder(strict=False, parse_constant=_refused)


def read(text: str) -> JsonValue:
    """Read a text that is JSON as it stands; raises `Unfit`."""
    try:
        found: JsonValue = STRICT.decode(text)
    except (ValueError, RecursionError):
        raise Unfit("it is no JSON") from None
    return found


def found_in(text: str, repairs: list[str]) -> JsonValue:
    """Find an object or a list in a text, and say what was done for it; raises `Unfit`."""
    plain = _CONTROL.sub("", text)
    if plain != text:
        repairs.append("control characters taken out")
    for how, found in _candidates(plain):
        if isinstance(found, dict | list):
            repairs.extend((how,) if how else ())
            return found
    raise Unfit("there is no JSON in it")


def _candidates(text: str) -> Iterator[tuple[str, JsonValue]]:
    """Give what may be meant, the whole text first, and how it was found."""
    yield from _decoded("", text.strip(), 0, whole=True)
    for block in _BLOCK.findall(text):
        yield from _decoded("taken out of a block of code", block.strip(), 0, whole=True)
    for begin in islice(_BEGINS.finditer(text), _MOST_BEGINNINGS):
        yield from _decoded("taken out of the text around it", text, begin.start(), whole=False)


def _decoded(how: str, text: str, start: int, *, whole: bool) -> Iterator[tuple[str, JsonValue]]:
    try:
        found, end = _LENIENT.raw_decode(text, start)
    except (ValueError, RecursionError):
        return
    if end == len(text) or not whole:
        yield how, found
