"""What a change of the published contract breaks for a consumer of an earlier release.

Two AsyncAPI documents are compared: that of a release and today's. A release may add types, fields
and words of an enumeration. It may not remove or rename a type, a field or a word, move a type to
another subject, make a field required or optional, or change what values a field has. Fields that
are not promised (`x-not-promised`) may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Schema = Mapping[str, Any]

UNPROMISED: Final = "x-not-promised"

_LIMITS: Final = (
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
)


def find_contract_breaks(released: Schema, current: Schema) -> list[str]:
    """Return a sentence for each thing that a consumer of the release could stumble over."""
    return [
        *_find_channel_breaks(released["channels"], current["channels"]),
        *_find_message_breaks(released["components"], current["components"]),
    ]


def _find_channel_breaks(released: Schema, current: Schema) -> Iterator[str]:
    now = {each["address"]: each["messages"].keys() for each in current.values()}
    for channel in released.values():
        address = channel["address"]
        if address not in now:
            yield f"{address}: nothing is published there any more"
            continue
        for message in channel["messages"].keys() - now[address]:
            yield f"{address}: {message} is not published there any more"


def _find_message_breaks(released: Schema, current: Schema) -> Iterator[str]:
    comparison = _Comparison(released["schemas"], current["schemas"])
    for name, message in sorted(released["messages"].items()):
        later = current["messages"].get(name)
        if later is None:
            yield f"{name}: the type was removed"
        else:
            yield from comparison.find_breaks(name, message["payload"], later["payload"])


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Compares schemas of two documents, and each pair of definitions once."""

    released: Schema
    current: Schema
    compared: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def find_breaks(self, place: str, before: Schema, after: Schema) -> Iterator[str]:
        """Yield what is narrower or wider than before, in words that name definition and field."""
        if UNPROMISED in before:
            return
        if "$ref" in before and "$ref" in after:
            names = (_get_name(before), _get_name(after))
            if names in self.compared:
                return
            self.compared.add(names)
            place = names[0]
        before, after = _resolve(before, self.released), _resolve(after, self.current)
        yield from self._find_value_breaks(place, before, after)
        yield from self._find_field_breaks(place, before, after)
        yield from self._find_choice_breaks(place, before, after)
        for inner in ("items", "additionalProperties"):
            if isinstance(before.get(inner), dict):
                if isinstance(after.get(inner), dict):
                    yield from self.find_breaks(f"{place}[]", before[inner], after[inner])
                else:
                    yield f"{place}: its values may be anything now"

    def _find_value_breaks(self, place: str, before: Schema, after: Schema) -> Iterator[str]:
        words, later = _list_words(before), _list_words(after)
        if words is not None:
            for word in words:
                if later is not None and word not in later:
                    yield f"{place}: the value {word!r} was removed"
            if later is None:
                yield f"{place}: its values are not enumerated any more"
        elif later is not None:
            yield f"{place}: it is narrowed to {later}"
        if before.get("type") != after.get("type"):
            yield f"{place}: its type was {before.get('type')} and is {after.get('type')}"
        for limit in _LIMITS:
            if before.get(limit) != after.get(limit):
                yield f"{place}: its {limit} was {before.get(limit)} and is {after.get(limit)}"

    def _find_field_breaks(self, place: str, before: Schema, after: Schema) -> Iterator[str]:
        fields: Schema = before.get("properties", {})
        later: Schema = after.get("properties", {})
        for name, schema in fields.items():
            if name in later:
                yield from self.find_breaks(f"{place}.{name}", schema, later[name])
            elif UNPROMISED not in schema:
                yield f"{place}.{name}: the field was removed"
        was, now = {*before.get("required", ())}, {*after.get("required", ())}
        for name in sorted(now - was):
            yield f"{place}.{name}: it is required, and recorded events may lack it"
        for name in sorted(was - now):
            yield f"{place}.{name}: it may be missing now"

    def _find_choice_breaks(self, place: str, before: Schema, after: Schema) -> Iterator[str]:
        for word in ("allOf", "anyOf", "oneOf"):
            options: Sequence[Schema] = before.get(word, ())
            later: Sequence[Schema] = after.get(word, ())
            for option in options:
                names = _name_option(option, self.released)
                match = [each for each in later if _name_option(each, self.current) == names]
                if match:
                    yield from self.find_breaks(f"{place}", option, match[0])
                else:
                    yield f"{place}: {names} was removed"


def _resolve(schema: Schema, definitions: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    own = {key: value for key, value in schema.items() if key != "$ref"}
    return {**definitions[_get_name(schema)], **own}


def _get_name(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _list_words(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return schema.get("enum")


def _name_option(schema: Schema, definitions: Schema) -> str:
    """Return what tells an option from the others: its definition, or its type."""
    if "$ref" in schema:
        return _get_name(schema)
    properties: Schema = _resolve(schema, definitions).get("properties", {})
    words = _list_words(properties.get("type", {}))
    return str(words[0]) if words else str(schema.get("type", "anything"))
