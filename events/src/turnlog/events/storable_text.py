r"""Texts that an event can hold: without NUL, which Postgres refuses, and without lone surrogates.

UTF-8 cannot encode half of a surrogate pair, and JSON can say one by an escape, such as `\ud800`.
So a text that is JSON may be storable while a text within it is not. Callers are refused such a
text, and told which field has it; what models, tools and providers say cannot be corrected by
anybody, and gets U+FFFD in its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

_UNSTORABLE_CHARACTERS: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\0\ud800-\udfff]")
"""A pair whose halves came apart, which is a character, or what is none."""

_PAIR: Final = 2


def is_storable(text: str) -> bool:
    """Return whether a text contains neither NUL nor a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def replace_unstorable(text: str) -> str:
    """Replace unstorable characters by U+FFFD, for texts that no caller can correct.

    The two halves of a surrogate pair beside each other are the character that they mean.
    """
    return _UNSTORABLE_CHARACTERS.sub(_replace_found, text)


def _replace_found(found: re.Match[str]) -> str:
    if len(found[0]) != _PAIR:
        return "\ufffd"
    return found[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def replace_unstorable_texts(value: JsonValue) -> JsonValue:
    """Replace them in all texts and keys of a value, whose nesting is bounded."""
    match value:
        case str():
            return replace_unstorable(value)
        case list():
            return [replace_unstorable_texts(each) for each in value]
        case dict():
            return replace_unstorable_members(value)
        case _:
            return value


def replace_unstorable_members(members: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Replace them in all names and values of an object."""
    return {
        replace_unstorable(name): replace_unstorable_texts(value) for name, value in members.items()
    }
