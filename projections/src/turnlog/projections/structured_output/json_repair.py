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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, assert_never

from pydantic import JsonValue

from turnlog.events.storable_text import replace_unstorable
from turnlog.projections.blueprint.bounded_json import (
    STRICT_DECODER,
    InvalidJson,
    parse_embedded_json,
    parse_json,
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


JsonSchema = dict[str, JsonValue]

AnswerPath = tuple[str | int, ...]


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
    for piece in find_json(text):
        try:
            return _repair_candidate(piece, schema)
        except InvalidAnswer as fault:
            faults.append(fault)
    raise faults[0]


def _repair_candidate(candidate: JsonCandidate, schema: JsonSchema) -> ValidatedAnswer:
    repairs, value = [*candidate.repairs], candidate.value
    if candidate.repair_scope != "none":
        value = _SchemaRepair(repairs, is_whole_text=candidate.repair_scope == "all").convert_value(
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


def format_answer_path(path: Sequence[str | int]) -> str:
    """Format a path in an answer: `steps.0.goal`."""
    return ".".join(str(step)[:64] for step in path) or "it"


@dataclass(frozen=True, slots=True)
class _SchemaRepair:
    repairs: list[str]
    is_whole_text: bool
    """Whether the whole value may be converted too, such as one item to a list of one."""

    def convert_value(self, value: JsonValue, schema: JsonValue, path: AnswerPath) -> JsonValue:
        if not isinstance(schema, dict):
            return value
        if path or self.is_whole_text:
            value = self._convert_type(value, schema, path)
        if isinstance(value, dict):
            return self._convert_members(value, schema, path)
        if isinstance(value, list):
            items = schema.get("items")
            return [self.convert_value(item, items, (*path, at)) for at, item in enumerate(value)]
        return value

    def _convert_members(
        self, value: dict[str, JsonValue], schema: JsonSchema, path: AnswerPath
    ) -> JsonValue:
        properties, required = _get_mapping(schema.get("properties")), _list_required_names(schema)
        kept: dict[str, JsonValue] = {}
        for name, item in value.items():
            member_schema = properties.get(name)
            if (
                item is None
                and name not in required
                and not _is_of_type(item, _list_types(member_schema))
            ):
                self._add_repair((*path, name), "nothing, left out")
            else:
                kept[name] = self.convert_value(item, member_schema, (*path, name))
        return kept

    def _convert_type(self, value: JsonValue, schema: JsonSchema, path: AnswerPath) -> JsonValue:
        types = _list_types(schema)
        if _is_of_type(value, types):
            return value
        for type_name in types:
            match type_name, value:
                case "string", int() | float() if not isinstance(value, bool):
                    self._add_repair(path, "a number for a text")
                    return json.dumps(value)
                case "array", str() | int() | float() | dict():
                    self._add_repair(path, "one for a list")
                    return [value]
                case "object", str() | int() | float() | list() if (
                    name := _find_single_required_name(schema)
                ):
                    self._add_repair(path, f"what `{name[:64]}` should say, alone")
                    return {name: value}
                case _:
                    pass
        return value

    def _add_repair(self, path: AnswerPath, what: str) -> None:
        self.repairs.append(f"{format_answer_path(path)}: {what}")


def _find_single_required_name(schema: JsonSchema) -> str | None:
    """Return the only required property of an object; None if there are more or none."""
    required = _list_required_names(schema)
    return required[0] if len(required) == 1 else None


def _list_required_names(schema: JsonSchema) -> tuple[str, ...]:
    named = schema.get("required")
    return tuple(str(each) for each in named) if isinstance(named, list) else ()


def _get_mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _list_types(schema: JsonValue) -> tuple[str, ...]:
    """Return the types that a schema allows; empty if it does not restrict the type."""
    named = schema.get("type") if isinstance(schema, dict) else None
    return tuple(map(str, named)) if isinstance(named, list) else (str(named),) if named else ()


def _is_of_type(value: JsonValue, types: Sequence[str]) -> bool:
    return not types or not {*types}.isdisjoint(_list_value_types(value))


def _list_value_types(value: JsonValue) -> tuple[str, ...]:
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean",)
        case int():
            return ("integer", "number")
        case float():
            return ("number", "integer") if value.is_integer() else ("number",)
        case str():
            return ("string",)
        case list():
            return ("array",)
        case dict():
            return ("object",)
        case _ as never:
            assert_never(never)
