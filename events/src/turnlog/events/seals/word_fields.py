"""Which fields of an event hold words, and how they leave its data and return to it.

They are found by the types of the event's model: every `Content`, and each field that is marked as
`SEALED`, also in the parts of an event. What takes their place keeps the data valid: the length of
a `Content`, and an empty value where the model requires one. The words are a sparse copy of the
data, in which a list is an object by index, so that who merges both needs no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo

from turnlog.events.content import RECORDED_TEXTS, SealedField

JsonObject = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class WordField:
    """A field that is sealed as a whole."""

    is_content: bool = False
    blank: JsonValue = None
    """What stands in its place; None for nothing."""


@dataclass(frozen=True, slots=True)
class WordPlaces:
    """The fields of a model or of the models of a list in which there are words."""

    fields: Mapping[str, WordField | WordPlaces]
    is_list: bool = False


_CONTENT: Final = WordField(is_content=True)


@cache
def find_word_fields(kind: type[BaseModel]) -> WordPlaces:
    """Return the fields of a model that hold words, or in whose parts there are any."""
    found = {name: _find_in_field(field) for name, field in kind.model_fields.items()}
    return WordPlaces({name: places for name, places in found.items() if places})


def _find_in_field(field: FieldInfo) -> WordField | WordPlaces | None:
    if any(isinstance(each, SealedField) for each in field.metadata):
        places: WordField | WordPlaces | None = WordField()
    else:
        places = _find_in_type(field.annotation)
    if isinstance(places, WordField) and not places.is_content and field.is_required():
        return WordField(blank=_build_blank(field.annotation))
    return places


def _build_blank(annotation: Any) -> JsonValue:  # noqa: ANN401 - the type of a field is anything
    kind = get_origin(annotation) or annotation
    return {} if kind is dict else [] if kind is tuple else ""


def _find_in_type(annotation: Any) -> WordField | WordPlaces | None:  # noqa: ANN401 - as above
    if isinstance(annotation, type) and issubclass(annotation, RECORDED_TEXTS):
        return _CONTENT
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        places = find_word_fields(annotation)
        return places if places.fields else None
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        is_sealed = any(isinstance(each, SealedField) for each in inner[1:])
        return WordField() if is_sealed else _find_in_type(inner[0])
    if origin is tuple:
        each = _find_in_type(inner[0])
        return WordPlaces({"": each}, is_list=True) if each else None
    if origin in {Union, UnionType}:
        return _join_places(each for each in map(_find_in_type, inner) if each)
    return None


def _join_places(found: Iterator[WordField | WordPlaces]) -> WordField | WordPlaces | None:
    joined: dict[str, WordField | WordPlaces] = {}
    for each in found:
        if isinstance(each, WordField) or each.is_list:
            return each
        joined |= each.fields
    return WordPlaces(joined) if joined else None


def split_words(kind: type[BaseModel], data: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Return the data of an event without its words, and these."""
    return _split_object(find_word_fields(kind), data)


def _split_object(places: WordPlaces, data: JsonObject) -> tuple[JsonObject, JsonObject]:
    rest: JsonObject = {}
    words: JsonObject = {}
    for name, value in data.items():
        at = places.fields.get(name)
        if at is None or value is None:
            rest[name] = value
            continue
        left, taken = _split_value(at, value)
        if left is not None:
            rest[name] = left
        if taken is not None:
            words[name] = taken
    return rest, words


def _split_value(at: WordField | WordPlaces, value: JsonValue) -> tuple[JsonValue, JsonValue]:
    """Return what stands in the place of a value, and its words; None for neither."""
    if isinstance(at, WordField):
        return (_get_length(value) if at.is_content else at.blank), value
    if at.is_list:
        pairs = [_split_value(at.fields[""], each) for each in cast("list[JsonValue]", value)]
        taken = {str(number): each for number, (_, each) in enumerate(pairs) if each is not None}
        return cast("JsonValue", [left for left, _ in pairs]), cast("JsonValue", taken or None)
    rest, words = _split_object(at, cast("JsonObject", value))
    return rest, words or None


def _get_length(content: JsonValue) -> int:
    texts = cast("JsonObject", content)
    return len(cast("str", texts["text"])) if "text" in texts else cast("int", texts["characters"])


def merge_words(data: JsonValue, words: JsonValue) -> JsonValue:
    """Return the data of an event with its words in their places."""
    if isinstance(data, list) and isinstance(words, dict):
        return [
            merge_words(each, words[str(number)]) if str(number) in words else each
            for number, each in enumerate(data)
        ]
    if isinstance(data, dict) and isinstance(words, dict):
        merged = {name: merge_words(data.get(name), each) for name, each in words.items()}
        return {**data, **merged}
    return words


def fill_erased(kind: type[BaseModel], data: JsonObject) -> JsonObject:
    """Return the data of an event whose words are gone, with erased texts for its contents."""
    return _fill_object(find_word_fields(kind), data)


def _fill_object(places: WordPlaces, data: JsonObject) -> JsonObject:
    found = {name: at for name, at in places.fields.items() if name in data}
    return {**data, **{name: _fill_value(at, data[name]) for name, at in found.items()}}


def _fill_value(at: WordField | WordPlaces, value: JsonValue) -> JsonValue:
    if isinstance(at, WordField):
        if at.is_content and value is not None:
            return {"erased": True, "digest": "", "characters": value}
        return value
    if at.is_list:
        return [_fill_value(at.fields[""], each) for each in cast("list[JsonValue]", value)]
    return value if value is None else _fill_object(at, cast("JsonObject", value))
