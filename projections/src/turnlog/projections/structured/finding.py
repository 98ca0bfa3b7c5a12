"""Finds JSON in a model's answer, repairs it, and validates it against a schema.

Around the JSON may be thoughts, prose, a code block and control characters. Models think first and
answer last, so the last JSON is the likeliest answer. How much of it may be repaired depends on how
certain that is.

Models give one value where a list is required, a bare word for an object, or a number for a text. A
valid answer is never changed, repairing is idempotent, and every repair is listed. An answer that
could be repaired only by guessing is invalid: the model is asked again instead.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, NoReturn

from pydantic import JsonValue

_REMOVED_PATTERNS: Final = {
    "control characters taken out": re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]"),
    "thoughts taken out": re.compile(r"\A\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL),
}
_FROM_BLOCK_NOTE: Final = "taken out of a block of code"
_FROM_PROSE_NOTE: Final = "taken out of the text around it"
_CODE_BLOCK: Final = re.compile(r"```[a-zA-Z]*\s(.*)```", re.DOTALL)
_JSON_START: Final = re.compile(r"(```[a-zA-Z]*\s*)?[{\[]")
_CODE_BLOCK_END: Final = re.compile(r"\s*```")
_MAX_CANDIDATES: Final = 64
"""Maximum number of candidates in one text; prose has few brackets."""
RepairScope = Literal["all", "within", "none"]


class InvalidAnswer(ValueError):
    """An answer that does not match its schema, and why; the message does not repeat the answer."""


@dataclass(frozen=True, slots=True)
class JsonCandidate:
    """An object or a list found in an answer."""

    value: JsonValue
    repairs: tuple[str, ...]
    """What was removed to extract it."""
    repair_scope: RepairScope
    """`all` if the text contains nothing else, `within` if it fills a code block or ends the text,
    otherwise `none`.
    """


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


STRICT_JSON_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_LENIENT_JSON_DECODER: Final = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def parse_strict_json(text: str) -> JsonValue:
    """Parse a text that is JSON as it is; raise `InvalidAnswer`."""
    try:
        found: JsonValue = STRICT_JSON_DECODER.decode(text)
    except (ValueError, RecursionError):
        raise InvalidAnswer("it is no JSON") from None
    return found


def find_json(text: str) -> list[JsonCandidate]:
    """Return the candidates of a text, the likeliest first; raise `InvalidAnswer` without any."""
    repairs: list[str] = []
    for taken_out, dirt in _REMOVED_PATTERNS.items():
        text, times = dirt.subn("", text)
        repairs += [taken_out] if times else []
    pieces = _parse_whole_text(text.strip()) or deque(_iterate_embedded_json(text), _MAX_CANDIDATES)
    if not pieces:
        raise InvalidAnswer("there is no JSON in it")
    return [replace(each, repairs=(*repairs, *each.repairs)) for each in reversed(pieces)]


def _parse_whole_text(text: str) -> list[JsonCandidate]:
    """Parse a text that is nothing but JSON or one code block; return no candidate otherwise."""
    block = _CODE_BLOCK.fullmatch(text)
    try:
        value: JsonValue = _LENIENT_JSON_DECODER.decode(block[1] if block else text)
    except (ValueError, RecursionError):
        return []
    found = JsonCandidate(value, (_FROM_BLOCK_NOTE,) if block else (), "all")
    return [found] if isinstance(value, dict | list) else []


def _iterate_embedded_json(text: str) -> Iterator[JsonCandidate]:
    """Yield the JSON values between words, but nothing from within broken JSON."""
    at = 0
    while begins := _JSON_START.search(text, at):
        start = begins.end() - 1
        try:
            value, at = _LENIENT_JSON_DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            at = max(error.pos, start + 1)
        except (ValueError, RecursionError):
            return
        else:
            block = begins[1] and _CODE_BLOCK_END.match(text, at)
            sure = block or not text[at:].strip()
            how = _FROM_BLOCK_NOTE if block else _FROM_PROSE_NOTE
            yield JsonCandidate(value, (how,), "within" if sure else "none")
