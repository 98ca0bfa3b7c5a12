"""Repairs a value by its JSON Schema, where only one value can be meant.

Models give one value where a list is required, a bare word for an object, a number for a text or a
text for a number, or write a word of an enumeration in another case. Every repair is listed, and a
value that matches is never changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Final, assert_never

from pydantic import JsonValue

JsonSchema = dict[str, JsonValue]

AnswerPath = tuple[str | int, ...]

_NUMBER_TEXT: Final = re.compile(r"\s*-?(?:0|[1-9]\d{0,30})(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?\s*")

_MAX_EXACT_INTEGER: Final = 2**53
"""The largest number that a text in decimal or exponent notation gives without loss."""

_MAX_REFERENCES: Final = 16
"""Most references that are followed from one part of a schema."""


def format_answer_path(path: Sequence[str | int]) -> str:
    """Format a path in an answer: `steps.0.goal`."""
    return ".".join(str(step)[:64] for step in path) or "it"


@dataclass(frozen=True, slots=True)
class SchemaRepair:
    """Repairs one value, and lists the repairs."""

    repairs: list[str]
    root: JsonSchema
    """The whole schema, to whose definitions its parts refer."""
    is_whole_text: bool
    """Whether the whole value may be converted too, such as one item to a list of one."""

    def convert_value(self, value: JsonValue, schema: JsonValue, path: AnswerPath) -> JsonValue:
        schema = self._choose_schema(value, schema)
        if not isinstance(schema, dict):
            return value
        if path or self.is_whole_text:
            value = self._convert_case(self._convert_type(value, schema, path), schema, path)
        if isinstance(value, dict):
            return self._convert_members(value, schema, path)
        if isinstance(value, list):
            items = schema.get("items")
            return [self.convert_value(item, items, (*path, at)) for at, item in enumerate(value)]
        return value

    def _choose_schema(self, value: JsonValue, schema: JsonValue) -> JsonValue:
        """Return what a schema refers to; of a value or nothing, the schema of the value."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(schema, dict) or "type" in schema:
                return schema
            reference, options = schema.get("$ref"), schema.get("anyOf")
            if isinstance(reference, str):
                schema = _find_definition(self.root, reference)
                continue
            alternatives = options if isinstance(options, list) and value is not None else []
            others = [each for each in alternatives if _list_types(each) != ("null",)]
            if len(others) != 1:
                return schema
            schema = others[0]
        return None

    def _convert_case(self, value: JsonValue, schema: JsonSchema, path: AnswerPath) -> JsonValue:
        """Return the word of an enumeration that a text is in another case."""
        words = schema.get("enum")
        if not isinstance(value, str) or not isinstance(words, list) or value in words:
            return value
        wanted = value.strip().casefold()
        same = [each for each in words if isinstance(each, str) and each.casefold() == wanted]
        if len(same) != 1:
            return value
        self._add_repair(path, "a word of the enumeration in another case")
        return same[0]

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
                case "integer" | "number", str() if (
                    number := _parse_number(value, is_integer=type_name == "integer")
                ) is not None:
                    self._add_repair(path, "a text for a number")
                    return number
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


def _parse_number(written: str, *, is_integer: bool) -> int | float | None:
    """Return the number that a text is, or None; of `7.0` the integer 7."""
    if not _NUMBER_TEXT.fullmatch(written):
        return None
    number = float(written)
    if not is_integer:
        value = json.loads(written.strip())
        return value if isinstance(value, int) or not isinf(number) else None
    return int(number) if number.is_integer() and abs(number) <= _MAX_EXACT_INTEGER else None


def _find_definition(root: JsonSchema, reference: str) -> JsonValue:
    """Return the part of a schema that a reference such as `#/$defs/name` names, or None."""
    if not reference.startswith("#/"):
        return root if reference == "#" else None
    found: JsonValue = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


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
