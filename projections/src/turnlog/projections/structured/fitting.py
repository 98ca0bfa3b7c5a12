from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from turnlog.projections.blueprint.storable import replace_unstorable
from turnlog.projections.structured.finding import JsonCandidate, InvalidAnswer, find_json, parse_strict_json
from turnlog.projections.structured.judging import find_violation

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
        value = _SchemaRepair(repairs, is_whole_text=candidate.repair_scope == "all").convert_value(value, schema, ())
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

    def _convert_members(self, value: dict[str, JsonValue], schema: JsonSchema, path: AnswerPath) -> JsonValue:
        properties, required = _get_mapping(schema.get("properties")), _list_required_names(schema)
        kept: dict[str, JsonValue] = {}
        for name, item in value.items():
            wanted = properties.get(name)
            if item is None and name not in required and not _is_of_type(item, _list_types(wanted)):
                self._add_repair((*path, name), "nothing, left out")
            else:
                kept[name] = self.convert_value(item, wanted, (*path, name))
        return kept

    def _convert_type(self, value: JsonValue, schema: JsonSchema, path: AnswerPath) -> JsonValue:
        types = _list_types(schema)
        if _is_of_type(value, types):
            return value
        for wanted in types:
            match wanted, value:
                case "string", int() | float() if not isinstance(value, bool):
                    self._add_repair(path, "a number for a text")
                    return json.dumps(value)
                case "array", str() | int() | float() | dict():
                    self._add_repair(path, "one for a list")
                    return [value]
                case "object", str() | int() | float() | list() if name := _find_single_required_name(schema):
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
