"""Parse NAME=VALUE arguments of the command line."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json


def parse_pairs(pairs: Iterable[str], option: str) -> dict[str, JsonValue]:
    """Parse `locale=lt` arguments; every value is a string."""
    return dict(_split_pair(word, option) for word in pairs)


def parse_json_pairs(pairs: Iterable[str], option: str) -> dict[str, JsonValue]:
    """Parse `first_turn=true` arguments; a value that is not JSON is a string."""
    return {name: _parse_json_value(text) for name, text in parse_pairs(pairs, option).items()}


def _split_pair(pair: str, option: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        fix = "write it as NAME=VALUE"
        raise Refused("bad-option", f"{pair!r} is not NAME=VALUE", field=option, fix=fix)
    return name, value


def _parse_json_value(text: JsonValue) -> JsonValue:
    try:
        return parse_json(str(text))
    except InvalidJson:
        return text
