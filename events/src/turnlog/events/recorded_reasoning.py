"""What a model reasoned, as events hold it: a JSON object of the fields in which it was sent.

Providers send it as a text (`reasoning_content`), as blocks with signatures (`thinking_blocks`) or
as items that only they can read (`reasoning_details`), and want it back in the same form. Two names
are ours: `cut` says that it was too long to be recorded whole, and `withheld` that a rule of the
blueprint forbids its text. Such reasoning is never sent back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

CUT_MARK: Final = "cut"
"""How much of it is recorded: `of` characters, `to` characters."""

WITHHELD_MARK: Final = "withheld"
"""The rule that its text breaks."""

REPLY_REASONING_FIELD: Final = "answer.reasoning"
"""Dotted path in `turn-completed` of what the model reasoned before the reply."""

TEXT_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
"""Fields that hold it as a text."""

BLOCK_FIELDS: Final = ("thinking_blocks", "reasoning_details", "reasoning_items", "content")
"""Fields that hold it as a list of blocks; those of `content` precede the text of the message."""

_BLOCK_TEXTS: Final = ("thinking", "text", "summary")
"""Names of a block's text."""


def parse_reasoning(recorded: str) -> dict[str, JsonValue] | None:
    """Return the fields; None if the text is no such object, as where it was withheld later."""
    try:
        fields: JsonValue = json.loads(recorded)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def is_plain_reasoning(fields: Mapping[str, JsonValue]) -> bool:
    """Return whether it is nothing but text: no block that is signed, named or encrypted."""
    return all(name in TEXT_FIELDS and isinstance(value, str) for name, value in fields.items())


def read_reasoning_text(fields: Mapping[str, JsonValue]) -> str:
    """Return the part of it that can be read; empty if all of it is encrypted."""
    for name in TEXT_FIELDS:
        if (text := fields.get(name)) and isinstance(text, str):
            return text
    for name in BLOCK_FIELDS:
        if text := "".join(_iterate_texts(fields.get(name))):
            return text
    return ""


def read_block_text(fields: Mapping[str, JsonValue], name: str) -> str:
    """Return the text of the blocks in one field."""
    return "".join(_iterate_texts(fields.get(name)))


def _iterate_texts(blocks: JsonValue) -> Iterator[str]:
    for block in blocks if isinstance(blocks, list) else ():
        match block:
            case str():
                yield block
            case dict():
                for name in _BLOCK_TEXTS:
                    text = block.get(name)
                    yield text if isinstance(text, str) else "".join(_iterate_texts(text))
            case _:
                pass
