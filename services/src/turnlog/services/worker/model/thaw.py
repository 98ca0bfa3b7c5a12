from __future__ import annotations

from collections.abc import Mapping
from typing import cast


def convert_to_plain(value: object) -> object:
    """Return a deep copy with mappings as dicts and sequences as lists.

    Every call gets its own copy: some of litellm's providers remove keys from the messages they
    get.
    """
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        return {key: convert_to_plain(each) for key, each in entries.items()}
    if isinstance(value, list | tuple):
        return [convert_to_plain(each) for each in cast("list[object]", value)]
    return value
