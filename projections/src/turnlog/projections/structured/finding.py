"""Finding JSON in what a model wrote: around it are thoughts, prose, a block of code, and dirt.

Models think first and answer last, so what stands last is the likeliest to be meant. How much of it
may be mended goes by how sure that is: brackets that prose only happens to have become nothing.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, NoReturn

from pydantic import JsonValue

_DIRT: Final = {
    "control characters taken out": re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]"),
    "thoughts taken out": re.compile(r"\A\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL),
}
_FROM_BLOCK: Final = "taken out of a block of code"
_FROM_PROSE: Final = "taken out of the text around it"
_BLOCK: Final = re.compile(r"```[a-zA-Z]*\s(.*)```", re.DOTALL)
_BEGINS: Final = re.compile(r"(```[a-zA-Z]*\s*)?[{\[]")
_CLOSES: Final = re.compile(r"\s*```")
_MOST_PIECES: Final = 64
"""How many pieces of a text are looked at; prose has few brackets."""
Mending = Literal["all", "within", "none"]


class Unfit(ValueError):
    """An answer that does not have its form, and why; what it says is not repeated."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An object or a list that stands in an answer."""

    value: JsonValue
    repairs: tuple[str, ...]
    """What was done to get at it."""
    mending: Mending
    """All of it where nothing else was said, what is within a block or ends the text, or none."""


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


def found_in(text: str) -> list[Piece]:
    """Give what may be meant in a text, the likeliest first; raises `Unfit` where nothing is."""
    repairs: list[str] = []
    for taken_out, dirt in _DIRT.items():
        text, times = dirt.subn("", text)
        repairs += [taken_out] if times else []
    pieces = _whole(text.strip()) or deque(_pieces(text), _MOST_PIECES)
    if not pieces:
        raise Unfit("there is no JSON in it")
    return [replace(each, repairs=(*repairs, *each.repairs)) for each in reversed(pieces)]


def _whole(text: str) -> list[Piece]:
    """Read a text that is JSON and nothing else, or one block of it."""
    block = _BLOCK.fullmatch(text)
    try:
        value: JsonValue = _LENIENT.decode(block[1] if block else text)
    except (ValueError, RecursionError):
        return []
    found = Piece(value, (_FROM_BLOCK,) if block else (), "all")
    return [found] if isinstance(value, dict | list) else []


def _pieces(text: str) -> Iterator[Piece]:
    """Give the JSON that stands among words, but nothing from within what is broken."""
    at = 0
    while begins := _BEGINS.search(text, at):
        start = begins.end() - 1
        try:
            value, at = _LENIENT.raw_decode(text, start)
        except json.JSONDecodeError as error:
            at = max(error.pos, start + 1)
        except (ValueError, RecursionError):
            return
        else:
            block = begins[1] and _CLOSES.match(text, at)
            sure = block or not text[at:].strip()
            how = _FROM_BLOCK if block else _FROM_PROSE
            yield Piece(value, (how,), "within" if sure else "none")
