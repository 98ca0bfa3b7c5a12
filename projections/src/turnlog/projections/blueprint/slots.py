"""Slots: `{name}` in a text or a path, where an attribute stands in.

`{name.name}` is a locale by its English name. There is no other syntax.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnlog.projections.blueprint.locales import language_name

_SLOT: Final = re.compile(r"\{([a-z][a-z0-9_-]*)(\.name)?\}")


def filled_slots(text: str, values: Mapping[str, JsonValue]) -> str:
    """Put attributes into a text; a slot without a value becomes empty."""
    return _SLOT.sub(lambda slot: _filled(values.get(slot[1]), named=bool(slot[2])), text)


def _filled(value: JsonValue, *, named: bool) -> str:
    return language_name(value) if named and isinstance(value, str) else spelt(value)


def slots_in(text: str) -> tuple[str, ...]:
    """Name the slots of a text."""
    return tuple(name for name, _ in _SLOT.findall(text))


def spelt(value: JsonValue) -> str:
    """Spell a value as it stands in a prompt: text as it is, all else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
