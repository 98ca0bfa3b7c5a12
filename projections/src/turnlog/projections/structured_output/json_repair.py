"""Finds JSON in a model's answer, repairs it, and validates it against a schema.

Around the JSON may be thoughts, prose, a code block and control characters. Models think first and
answer last, so the last JSON is the likeliest answer. How much of it may be repaired depends on how
certain that is.

Models give one value where a list is required, a bare word for an object, a number for a text or a
text for a number, or write a word of an enumeration in another case. A valid answer is never
changed, repairing is idempotent, and every repair is listed. An answer that could be repaired only
by guessing is invalid: the model is asked again instead.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.events.storable_text import replace_unstorable
from turnlog.projections.blueprint.bounded_json import (
    STRICT_DECODER,
    InvalidJson,
    parse_embedded_json,
    parse_json,
)
from turnlog.projections.structured_output.lenient_json import scan_lenient_json
from turnlog.projections.structured_output.schema_repair import (
    JsonSchema,
    SchemaRepair,
    format_answer_path,
)
from turnlog.projections.structured_output.schema_validation import find_violation

_REMOVED_PATTERNS: Final = {
    "control characters taken out": re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]"),
    "thoughts taken out": re.compile(r"\A\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL),
}

_FROM_BLOCK_NOTE: Final = "taken out of a block of code"

_FROM_PROSE_NOTE: Final = "taken out of the text around it"

_CODE_BLOCK: Final = re.compile(r"```[a-zA-Z]*\s(.*)```", re.DOTALL)

_JSON_START: Final = re.compile(r"(```[a-zA-Z]*\s*)?[{\[]")

_CODE_BLOCK_END: Final = re.compile(r"\s*```")

_BLANK_REST: Final = re.compile(r"\s*\Z")

_MAX_CANDIDATES: Final = 64
"""Maximum number of candidates in one text; prose has few brackets."""

_MAX_STARTS: Final = 2_000
"""Maximum number of places in a text where JSON is looked for; what looks like a start and is none
costs time that grows with the text before it."""

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


_LENIENT_DECODER: Final = json.JSONDecoder(
    strict=False,
    parse_constant=STRICT_DECODER.parse_constant,
    parse_float=STRICT_DECODER.parse_float,
)
"""Accepts control characters in texts, which models write."""


def parse_strict_json(text: str) -> JsonValue:
    """Parse a text that is JSON as it is; raise `InvalidAnswer`."""
    try:
        return parse_json(text)
    except InvalidJson:
        raise InvalidAnswer("it is no JSON") from None


def find_json(text: str) -> list[JsonCandidate]:
    """Return the candidates of a text, the likeliest first; raise `InvalidAnswer` without any."""
    pieces = [*_iterate_candidates(text)]
    if not pieces:
        raise InvalidAnswer("there is no JSON in it")
    return pieces


def remove_noise(text: str) -> tuple[str, tuple[str, ...]]:
    """Return an answer without control characters and thoughts, and what was taken out."""
    repairs: list[str] = []
    for taken_out, dirt in _REMOVED_PATTERNS.items():
        text, times = dirt.subn("", text)
        repairs += [taken_out] if times else []
    return text, tuple(repairs)


def _iterate_candidates(text: str) -> Iterator[JsonCandidate]:
    """Yield what is JSON, the likeliest first, and then what nearly is."""
    text, repairs = remove_noise(text)
    pieces = _parse_whole_text(text.strip()) or deque(_iterate_embedded_json(text), _MAX_CANDIDATES)
    for each in reversed(pieces):
        yield replace(each, repairs=(*repairs, *each.repairs))
    for each in reversed(deque(_iterate_nearly_json(text), _MAX_CANDIDATES)):
        yield replace(each, repairs=(*repairs, *each.repairs))


def _parse_whole_text(text: str) -> list[JsonCandidate]:
    """Parse a text that is nothing but JSON or one code block; return no candidate otherwise."""
    block = _CODE_BLOCK.fullmatch(text)
    try:
        value = parse_json(block[1] if block else text, decoder=_LENIENT_DECODER)
    except InvalidJson:
        return []
    found = JsonCandidate(value, (_FROM_BLOCK_NOTE,) if block else (), "all")
    return [found] if isinstance(value, dict | list) else []


def _iterate_embedded_json(text: str) -> Iterator[JsonCandidate]:
    """Yield the JSON values between words, but nothing from within broken JSON."""
    at = 0
    for _ in range(_MAX_STARTS):
        begins = _JSON_START.search(text, at)
        if begins is None:
            return
        start = begins.end() - 1
        try:
            value, at = parse_embedded_json(text, start, decoder=_LENIENT_DECODER)
        except json.JSONDecodeError as error:
            at = max(error.pos, start + 1)
        except InvalidJson:
            return
        else:
            block = begins[1] and _CODE_BLOCK_END.match(text, at)
            sure = block or _BLANK_REST.match(text, at)
            how = _FROM_BLOCK_NOTE if block else _FROM_PROSE_NOTE
            yield JsonCandidate(value, (how,), "within" if sure else "none")


def _iterate_nearly_json(text: str) -> Iterator[JsonCandidate]:
    """Yield the values whose notation was repaired."""
    at = 0
    for _ in range(_MAX_STARTS):
        begins = _JSON_START.search(text, at)
        if begins is None:
            return
        start = begins.end() - 1
        scan = scan_lenient_json(text, start)
        at = max(scan.end, start + 1)
        if scan.json is None or not scan.repairs:
            continue
        try:
            value = parse_json(scan.json, decoder=_LENIENT_DECODER)
        except InvalidJson:
            continue
        block = begins[1] and (_CODE_BLOCK_END.match(text, at) or _BLANK_REST.match(text, at))
        is_end, is_start = _BLANK_REST.match(text, at), not text[: begins.start()].strip()
        around = () if is_start and is_end and not block else (_FROM_PROSE_NOTE,)
        scope: RepairScope = "all" if is_start and is_end else "within" if is_end else "none"
        yield JsonCandidate(
            value,
            ((_FROM_BLOCK_NOTE,) if block else around) + scan.repairs,
            "within" if block and scope == "none" else scope,
        )


@dataclass(frozen=True, slots=True)
class ValidatedAnswer:
    """An answer that matches its schema."""

    text: str
    value: JsonValue
    repairs: tuple[str, ...] = ()
    """The repairs it needed."""


def validate_answer(text: str, schema: JsonSchema, *, repair: bool = True) -> ValidatedAnswer:
    """Validate an answer, after repairs if allowed; raise `InvalidAnswer`."""
    try:
        value = parse_strict_json(text)
        _check_schema(value, schema)
    except InvalidAnswer:
        if not repair:
            raise
        return _repair_answer(text, schema)
    return ValidatedAnswer(text, value)


def _repair_answer(text: str, schema: JsonSchema) -> ValidatedAnswer:
    faults: list[InvalidAnswer] = []
    for piece in _iterate_candidates(text):
        try:
            return _repair_candidate(piece, schema)
        except InvalidAnswer as fault:
            faults.append(fault)
    raise faults[0] if faults else InvalidAnswer("there is no JSON in it")


def _repair_candidate(candidate: JsonCandidate, schema: JsonSchema) -> ValidatedAnswer:
    repairs, value = [*candidate.repairs], candidate.value
    if candidate.repair_scope != "none":
        is_whole_text = candidate.repair_scope == "all"
        value = SchemaRepair(repairs, schema, is_whole_text=is_whole_text).convert_value(
            value, schema, ()
        )
    text = replace_unstorable(json.dumps(value, ensure_ascii=False))
    value = parse_strict_json(text)
    _check_schema(value, schema)
    return ValidatedAnswer(text, value, tuple(repairs) or ("written anew",))


def _check_schema(value: JsonValue, schema: JsonSchema) -> None:
    fault = find_violation(value, schema)
    if fault is not None:
        raise InvalidAnswer(f"{format_answer_path(fault.path)}: {fault.rule}")
