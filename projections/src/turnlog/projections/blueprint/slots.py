from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnlog.projections.blueprint.locales import language_name

_SLOT: Final = re.compile(r"\{([a-z][a-z0-9_-]*)(\.name)?\}")


def filled_slots(text: str, values: Mapping[str, JsonValue]) -> str:
    """Replace every slot by its value; a slot without a value becomes empty."""
    return _SLOT.sub(lambda slot: _filled(values.get(slot[1]), named=bool(slot[2])), text)


def _filled(value: JsonValue, *, named: bool) -> str:
    return language_name(value) if named and isinstance(value, str) else spelt(value)


def slots_in(text: str) -> tuple[str, ...]:
    """Return the slot names of a text, in order."""
    return tuple(name for name, _ in _SLOT.findall(text))


def spelt(value: JsonValue) -> str:
    """Format a value for a prompt: text unchanged, null as empty text, everything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
