"""Frozen values as the plain dicts and lists that litellm expects, and alters.

Every call gets a copy of its own: some of litellm's providers take keys out of the messages they
are handed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast


def thawed(value: object) -> object:
    """A deep copy with mappings as dicts and sequences as lists."""
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        return {key: thawed(each) for key, each in entries.items()}
    if isinstance(value, list | tuple):
        return [thawed(each) for each in cast("list[object]", value)]
    return value
