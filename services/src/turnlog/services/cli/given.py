"""Parse NAME=VALUE arguments of the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pydantic import JsonValue

from turnlog.events.errors import Refused


def named(words: Iterable[str], option: str) -> dict[str, JsonValue]:
    """Parse `locale=lt` arguments; every value is a string."""
    return dict(_parted(word, option) for word in words)


def named_json(words: Iterable[str], option: str) -> dict[str, JsonValue]:
    """Parse `first_turn=true` arguments; a value that is not JSON is a string."""
    return {name: _value(spelt) for name, spelt in named(words, option).items()}


def _parted(word: str, option: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        fix = "write it as NAME=VALUE"
        raise Refused("bad-option", f"{word!r} is not NAME=VALUE", field=option, fix=fix)
    return name, value


def _value(spelt: JsonValue) -> JsonValue:
    try:
        value: JsonValue = json.loads(str(spelt))
    except ValueError:
        return spelt
    return value
