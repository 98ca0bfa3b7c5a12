from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from turnlog.projections.blueprint.storable import mended
from turnlog.projections.structured.finding import Piece, Unfit, found_in, read
from turnlog.projections.structured.judging import fault_in

Schema = dict[str, JsonValue]
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fitted:
    """An answer that matches its schema."""

    text: str
    value: JsonValue
    repairs: tuple[str, ...] = ()
    """The repairs it needed."""


def fitted(text: str, schema: Schema, *, repair: bool = True) -> Fitted:
    """Validate an answer, after repairs if allowed; raise `InvalidAnswer`."""
    try:
        value = read(text)
        _judged(value, schema)
    except Unfit:
        if not repair:
            raise
        return _mended(text, schema)
    return Fitted(text, value)


def _mended(text: str, schema: Schema) -> Fitted:
    faults: list[Unfit] = []
    for piece in found_in(text):
        try:
            return _fitting(piece, schema)
        except Unfit as fault:
            faults.append(fault)
    raise faults[0]


def _fitting(piece: Piece, schema: Schema) -> Fitted:
    repairs, value = [*piece.repairs], piece.value
    if piece.mending != "none":
        value = _Mending(repairs, whole=piece.mending == "all").coerced(value, schema, ())
    text = mended(json.dumps(value, ensure_ascii=False))
    value = read(text)
    _judged(value, schema)
    return Fitted(text, value, tuple(repairs) or ("written anew",))


def _judged(value: JsonValue, schema: Schema) -> None:
    fault = fault_in(value, schema)
    if fault is not None:
        raise Unfit(f"{spelt(fault.place)}: {fault.rule}")


def spelt(place: Sequence[str | int]) -> str:
    """Format a path in an answer: `steps.0.goal`."""
    return ".".join(str(step)[:64] for step in place) or "it"


@dataclass(frozen=True, slots=True)
class _Mending:
    repairs: list[str]
    whole: bool
    """Whether the whole value may be converted too, such as one item to a list of one."""

    def coerced(self, value: JsonValue, schema: JsonValue, place: Place) -> JsonValue:
        if not isinstance(schema, dict):
            return value
        if place or self.whole:
            value = self._of_type(value, schema, place)
        if isinstance(value, dict):
            return self._members(value, schema, place)
        if isinstance(value, list):
            items = schema.get("items")
            return [self.coerced(item, items, (*place, at)) for at, item in enumerate(value)]
        return value

    def _members(self, value: dict[str, JsonValue], schema: Schema, place: Place) -> JsonValue:
        properties, required = _mapping(schema.get("properties")), _names(schema)
        kept: dict[str, JsonValue] = {}
        for name, item in value.items():
            wanted = properties.get(name)
            if item is None and name not in required and not _is_of(item, _types(wanted)):
                self._note((*place, name), "nothing, left out")
            else:
                kept[name] = self.coerced(item, wanted, (*place, name))
        return kept

    def _of_type(self, value: JsonValue, schema: Schema, place: Place) -> JsonValue:
        types = _types(schema)
        if _is_of(value, types):
            return value
        for wanted in types:
            match wanted, value:
                case "string", int() | float() if not isinstance(value, bool):
                    self._note(place, "a number for a text")
                    return json.dumps(value)
                case "array", str() | int() | float() | dict():
                    self._note(place, "one for a list")
                    return [value]
                case "object", str() | int() | float() | list() if name := _foremost(schema):
                    self._note(place, f"what `{name[:64]}` should say, alone")
                    return {name: value}
                case _:
                    pass
        return value

    def _note(self, place: Place, what: str) -> None:
        self.repairs.append(f"{spelt(place)}: {what}")


def _foremost(schema: Schema) -> str | None:
    """Return the only required property of an object; None if there are more or none."""
    required = _names(schema)
    return required[0] if len(required) == 1 else None


def _names(schema: Schema) -> tuple[str, ...]:
    named = schema.get("required")
    return tuple(str(each) for each in named) if isinstance(named, list) else ()


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _types(schema: JsonValue) -> tuple[str, ...]:
    """Return the types that a schema allows; empty if it does not restrict the type."""
    named = schema.get("type") if isinstance(schema, dict) else None
    return tuple(map(str, named)) if isinstance(named, list) else (str(named),) if named else ()


def _is_of(value: JsonValue, types: Sequence[str]) -> bool:
    return not types or not {*types}.isdisjoint(_types_of(value))


def _types_of(value: JsonValue) -> tuple[str, ...]:
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
