"""Read fields of a chunk, whatever its type: an object of litellm or parsed JSON, loosely typed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from turnlog.events.storable_text import replace_unstorable

_MAX_COUNT: Final = 10**12
"""Maximum of a count or an index that is believed: what is stored must fit into a database."""


def get_field(value: object, name: str) -> object:
    """Return a field of an object or of an entry of JSON; None if it has none."""
    if isinstance(value, dict):
        return cast("Mapping[str, object]", value).get(name)
    return getattr(value, name, None)


def read_text(value: object) -> str:
    """Return a text as it came, half a surrogate pair included; empty if it is none."""
    return value if isinstance(value, str) else ""


def read_count(value: object) -> int:
    """Return a count; 0 if it is none that can be believed."""
    return value if isinstance(value, int) and 0 <= value <= _MAX_COUNT else 0


def read_sequence(value: object) -> Sequence[object]:
    """Return a list; empty if it is none."""
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()


def read_plain_text(delta: object) -> str | None:
    """Return the text of a delta that has nothing else, or None if more has to be read of it.

    Most chunks of an answer are of this kind, and a turn's processor time is that of its chunks.
    """
    if not isinstance(delta, dict):
        return None
    fields = cast("Mapping[str, object]", delta)
    content = fields.get("content")
    if not isinstance(content, str):
        return None
    for name, value in fields.items():
        if value is not None and name not in {"content", "role"}:
            return None
    return content


MAX_UNREAD: Final = 20_000
"""Maximum characters that are recorded of what cannot be read."""


def encode_unread(value: object) -> str:
    """Return what cannot be read as JSON, or as its type shows it, to be recorded as it came."""
    return cut_unread(json.dumps(value, ensure_ascii=False, default=str))


def cut_unread(text: str) -> str:
    """Return a text that cannot be read as an event can hold it."""
    return replace_unstorable(text[:MAX_UNREAD])


_NO_REASONS: Final = frozenset({"", "none", "null"})
"""What servers write into a chunk that is not the last one, instead of leaving the reason out."""


def read_finish_reason(value: object) -> str | None:
    """Return a finish reason in the provider's words; None if it says that nothing has ended."""
    reason = read_text(value).strip()
    return None if reason.lower() in _NO_REASONS else reason


def get_choice(chunk: object) -> object:
    """Return the first choice of a chunk; the requests ask for one only."""
    choices = read_sequence(get_field(chunk, "choices"))
    return choices[0] if choices else None
