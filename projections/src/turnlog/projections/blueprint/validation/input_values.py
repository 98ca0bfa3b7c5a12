"""Checks of attribute values, input values and session keys against a blueprint.

Values are recorded in events and may be used in prompts and paths. A wrong value is refused with
its name and a fix before anything is recorded. The same rules are published as JSON Schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.linear_patterns import MATCH_REACH, compile_pattern
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, ValueSpec
from turnlog.projections.blueprint.schema.strict_model import (
    ID_PATTERN,
    LOCALE_PATTERN,
    MAX_KEY_CHARACTERS,
)
from turnlog.projections.blueprint.sent_names import format_sent_name, quote_sent_name
from turnlog.projections.blueprint.storable_json import MAX_INT, check_json, cut_text
from turnlog.projections.blueprint.validation.blueprint_faults import (
    find_near_word,
    format_words,
    suggest_word,
)

_TYPE_DESCRIPTIONS: Final = {
    "id": "an id: a letter or digit, then letters, digits and _ . : -, at most 128 in all",
    "text": "text",
    "locale": "a language tag such as `en` or `pt-BR`",
    "int": "a whole number",
    "bool": "true or false",
    "list": "a list",
    "map": "an object",
}

MAX_PATTERN_TEXT: Final = MATCH_REACH
"""Maximum characters of a value with a pattern, which is searched in one piece."""

CheckedValues = dict[str, JsonValue]


def check_values(
    specs: Mapping[str, ValueSpec], values: Mapping[str, JsonValue], field: str
) -> CheckedValues:
    """Check the given values and add defaults; raise `Refused` naming `field.<name>`.

    A value that is given under another name is returned under its own.
    """
    check_json(values, field)
    own_names = {other: name for name, spec in specs.items() for other in (name, *spec.also)}
    sent_names: dict[str, str] = {}
    for sent, value in values.items():
        at = f"{field}.{format_sent_name(sent)}"
        name = own_names.get(sent)
        if name is None:
            fix = suggest_word(sent[:80], specs)
            detail = f"there is no {quote_sent_name(sent)}"
            raise Refused("unknown-value", detail, field=at, fix=fix)
        if name in sent_names:
            detail = f"{name} is given already, as {sent_names[name]}"
            raise Refused("given-twice", detail, field=at, fix="leave out one of the two")
        if not is_allowed_value(specs[name], value):
            raise _create_refusal(specs[name], value, at)
        sent_names[name] = sent
    for name, spec in specs.items():
        if spec.required and name not in sent_names:
            fix = f"add {name}: {describe_allowed_values(spec)}"
            raise Refused(
                "missing-value", f"{name} must be given", field=f"{field}.{name}", fix=fix
            )
    defaults = {name: spec.default for name, spec in specs.items() if spec.default is not None}
    full = {**defaults, **{name: values[sent] for name, sent in sent_names.items()}}
    return {
        name: _check_list_items(specs[name], value, f"{field}.{sent_names.get(name, name)}")
        for name, value in full.items()
    }


def check_recorded_values(
    before: Mapping[str, ValueSpec],
    after: Mapping[str, ValueSpec],
    recorded: Mapping[str, JsonValue],
    field: str,
) -> CheckedValues:
    """Check values recorded under another version of the blueprint.

    A recorded value that equals the old default is replaced by the new default.
    """
    defaults = {name: spec.default for name, spec in before.items() if spec.default is not None}
    explicit_values = {
        name: value for name, value in recorded.items() if defaults.get(name) != value
    }
    return check_values(after, explicit_values, field)


def _check_list_items(spec: ValueSpec, value: JsonValue, field: str) -> JsonValue:
    """Check the items of a list against the spec of its items."""
    if spec.of is None or not isinstance(value, list):
        return value
    items = ((f"{field}.{place}", item) for place, item in enumerate(value))
    return [check_values(spec.of, _require_object(item, at), at) for at, item in items]


def _require_object(item: JsonValue, field: str) -> CheckedValues:
    if isinstance(item, dict):
        return item
    raise Refused("wrong-type", "it is not an object", field=field, fix="send an object")


def _create_refusal(spec: ValueSpec, value: JsonValue, field: str) -> Refused:
    """Return the refusal of a value, which may be secret: what is allowed, or the nearest of it."""
    expected = describe_allowed_values(spec)
    code = "value-not-allowed" if _is_value_of_type(spec, value) else "wrong-type"
    near = find_near_word(str(value), map(str, spec.enum or ()))
    return Refused(code, f"it is not {expected}", field=field, fix=f"send {near or expected}")


def describe_allowed_values(spec: ValueSpec) -> str:
    """Describe in words which values are accepted."""
    if spec.enum is not None:
        return f"one of: {format_words(map(str, spec.enum))}"
    if spec.type == "int":
        return f"a whole number {_describe_range(spec)}"
    length = _describe_length(spec)
    pattern = f"all of it matching `{cut_text(spec.pattern, 200)}`" if spec.pattern else ""
    return ", ".join(filter(None, (_TYPE_DESCRIPTIONS[spec.type], length, pattern)))


def _describe_range(spec: ValueSpec) -> str:
    most = MAX_INT if spec.max is None else spec.max
    if spec.min is not None:
        return f"from {spec.min} to {most}"
    return f"within {MAX_INT}" if spec.max is None else f"up to {most}"


def _describe_length(spec: ValueSpec) -> str:
    least, most = spec.min_length, _get_max_length(spec)
    if most is None:
        return f"at least {least} characters" if least else ""
    return f"{least} to {most} characters" if least else f"at most {most} characters"


def _get_max_length(spec: ValueSpec) -> int | None:
    return MAX_PATTERN_TEXT if spec.pattern and spec.max_length is None else spec.max_length


def is_allowed_value(spec: ValueSpec, value: JsonValue) -> bool:
    """Return whether a value has the type of its spec, and is within what the spec allows.

    Null never is, because it means the same as leaving the value out.
    """
    if not _is_value_of_type(spec, value):
        return False
    if spec.enum is not None and value not in spec.enum:
        return False
    match value:
        case bool():
            return True
        case int():
            return _is_within(value, spec.min, spec.max)
        case str():
            return _is_within(len(value), spec.min_length, _get_max_length(spec)) and (
                spec.pattern is None or _matches_whole(spec.pattern, value)
            )
        case _:
            return True


def _is_value_of_type(spec: ValueSpec, value: JsonValue) -> bool:
    match spec.type:
        case "id":
            return isinstance(value, str) and re.fullmatch(ID_PATTERN, value) is not None
        case "text":
            return isinstance(value, str)
        case "locale":
            return isinstance(value, str) and re.fullmatch(LOCALE_PATTERN, value) is not None
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "bool":
            return isinstance(value, bool)
        case "list":
            return isinstance(value, list)
        case "map":
            return isinstance(value, dict)
        case _ as never:
            assert_never(never)


def _is_within(value: int, least: int | None, most: int | None) -> bool:
    return (least is None or least <= value) and (most is None or value <= most)


def _matches_whole(pattern: str, text: str) -> bool:
    return compile_pattern(_build_whole_pattern(pattern)).has_match(text)


def _build_whole_pattern(pattern: str) -> str:
    return f"^(?:{pattern})$"


def build_values_schema(specs: Mapping[str, ValueSpec]) -> CheckedValues:
    """Return the JSON Schema of the values that `check_values` accepts."""
    required: list[JsonValue] = [
        name for name, spec in specs.items() if spec.required and not spec.also
    ]
    rules: list[JsonValue] = [
        rule for name, spec in specs.items() for rule in _list_name_rules(name, spec)
    ]
    return {
        "type": "object",
        "properties": {
            name: _build_property_schema(spec)
            for own, spec in specs.items()
            for name in (own, *spec.also)
        },
        "required": required,
        **({"allOf": rules} if rules else {}),
        "additionalProperties": False,
    }


def _list_name_rules(name: str, spec: ValueSpec) -> Iterator[JsonValue]:
    """Yield the rules that a value with other names is given under one of them at most."""
    if spec.also and spec.required:
        yield {"anyOf": [{"required": [each]} for each in (name, *spec.also)]}
    for pair in combinations((name, *spec.also), 2):
        yield {"not": {"required": [*pair]}}


def _build_property_schema(spec: ValueSpec) -> CheckedValues:
    default: CheckedValues = {} if spec.default is None else {"default": spec.default}
    return {**_build_type_schema(spec), **default}


def _build_type_schema(spec: ValueSpec) -> CheckedValues:
    listed: CheckedValues = {} if spec.enum is None else {"enum": [*spec.enum]}
    match spec.type:
        case "id":
            return {"type": "string", "pattern": ID_PATTERN, **_build_text_rules(spec), **listed}
        case "text":
            return {"type": "string", **_build_text_rules(spec), **listed}
        case "locale":
            return {"type": "string", "pattern": LOCALE_PATTERN, **listed}
        case "int":
            least = -MAX_INT if spec.min is None else spec.min
            most = MAX_INT if spec.max is None else spec.max
            return {"type": "integer", "minimum": least, "maximum": most, **listed}
        case "bool":
            return {"type": "boolean"}
        case "list":
            return {"type": "array", **({"items": build_values_schema(spec.of)} if spec.of else {})}
        case "map":
            return {"type": "object"}
        case _ as never:
            assert_never(never)


def _build_text_rules(spec: ValueSpec) -> CheckedValues:
    """Return the lengths and the pattern; that of an id stands beside the pattern of all ids."""
    least, most = spec.min_length, _get_max_length(spec)
    rules: CheckedValues = {} if least is None else {"minLength": least}
    if most is not None:
        rules["maxLength"] = most
    if spec.pattern is not None and spec.type == "id":
        rules["allOf"] = [{"pattern": _build_whole_pattern(spec.pattern)}]
    elif spec.pattern is not None:
        rules["pattern"] = _build_whole_pattern(spec.pattern)
    return rules


def check_session_key(blueprint: Blueprint, key: Mapping[str, str]) -> dict[str, str]:
    """Check the session key of a request; raise `Refused` naming `key.<name>`."""
    names = blueprint.session.key if blueprint.session else ()
    if not names:
        detail = f"sessions of {blueprint.blueprint} are not found by a key"
        raise Refused("no-key", detail, field="key", fix="leave it out")
    for name in key:
        if name not in names:
            fix = suggest_word(name[:80], names)
            field = f"key.{format_sent_name(name)}"
            detail = f"there is no {quote_sent_name(name)}"
            raise Refused("unknown-value", detail, field=field, fix=fix)
    return {name: _check_key_value(name, key.get(name, "")) for name in names}


def _check_key_value(name: str, value: str) -> str:
    if 1 <= len(value) <= MAX_KEY_CHARACTERS:
        return value
    fix = f"send 1 to {MAX_KEY_CHARACTERS} characters"
    raise Refused("bad-key-value", f"{name} has {len(value)}", field=f"key.{name}", fix=fix)


def compute_session_id(blueprint: Blueprint, key: Mapping[str, str]) -> str:
    """Return the session id for a checked key.

    The id is a digest over the blueprint's name and all names and values of the key, encoded so
    that no two keys collide. The first caller opens the session and every later one finds it.
    """
    encoded = json.dumps([blueprint.blueprint, sorted(key.items())])
    return compute_digest(encoded).removeprefix("sha256:")
