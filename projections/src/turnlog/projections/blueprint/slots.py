from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnlog.projections.blueprint.locales import get_language_name

_SLOT_PATTERN: Final = re.compile(r"\{([a-z][a-z0-9_-]*)(\.name)?\}")


def fill_slots(text: str, values: Mapping[str, JsonValue]) -> str:
    """Replace every slot by its value; a slot without a value becomes empty."""
    return _SLOT_PATTERN.sub(lambda slot: _format_slot_value(values.get(slot[1]), named=bool(slot[2])), text)


def _format_slot_value(value: JsonValue, *, named: bool) -> str:
    return get_language_name(value) if named and isinstance(value, str) else format_prompt_value(value)


def find_slots(text: str) -> tuple[str, ...]:
    """Return the slot names of a text, in order."""
    return tuple(name for name, _ in _SLOT_PATTERN.findall(text))


def format_prompt_value(value: JsonValue) -> str:
    """Format a value for a prompt: text unchanged, null as empty text, everything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
