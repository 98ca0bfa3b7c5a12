"""Parse NAME=VALUE arguments of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json


def parse_pairs(pairs: Iterable[str], option: str) -> dict[str, JsonValue]:
    """Parse `locale=lt` arguments; every value is a string."""
    return dict(_split_pair(word, option) for word in pairs)


def parse_typed_pairs(
    pairs: Iterable[str], option: str, schema: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Parse `level=3` arguments by a JSON Schema; what the schema knows as text is a string."""
    properties = schema.get("properties")
    types = properties if isinstance(properties, dict) else {}
    return {
        name: _parse_json_value(text) if _has_other_type(types.get(name)) else text
        for name, text in parse_pairs(pairs, option).items()
    }


def parse_ladder_settings(pairs: Iterable[str], option: str) -> dict[str, dict[str, JsonValue]]:
    """Parse `drop_oldest_pairs.to=80%` arguments into settings by the name of their step."""
    settings: dict[str, dict[str, JsonValue]] = {}
    for place, value in parse_pairs(pairs, option).items():
        step, dot, setting = place.partition(".")
        if not (step and dot and setting):
            detail, fix = f"{place!r} is not STEP.SETTING", "write it as STEP.SETTING=VALUE"
            raise Refused("bad-option", detail, field=option, fix=fix)
        settings.setdefault(step, {})[setting] = _parse_json_value(value)
    return settings


def _has_other_type(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and schema.get("type") != "string"


def _split_pair(pair: str, option: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        fix = "write it as NAME=VALUE"
        raise Refused("bad-option", f"{pair!r} is not NAME=VALUE", field=option, fix=fix)
    return name, value


def _parse_json_value(text: JsonValue) -> JsonValue:
    try:
        return parse_json(str(text), as_written=True)
    except InvalidJson:
        return text
