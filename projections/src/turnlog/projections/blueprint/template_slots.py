"""Template slots: `{name}` in a text or a path stands for the value of an attribute.

`{name.name}` is the English name of the language of a locale, for prompts that say in which
language to answer. There is no other syntax. The language table belongs to Turnlog and never
changes an existing name, because that would change recorded prompts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

_LANGUAGE_NAMES: Final = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "is": "Icelandic",
    "it": "Italian",
    "ja": "Japanese",
    "ka": "Georgian",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mt": "Maltese",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sq": "Albanian",
    "sr": "Serbian",
    "sv": "Swedish",
    "sw": "Swahili",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese",
}


def get_language_name(locale: str) -> str:
    """Return the English language name of a locale (`lt` and `lt-LT` give Lithuanian).

    A locale that the table lacks is returned unchanged.
    """
    return _LANGUAGE_NAMES.get(locale.replace("_", "-").partition("-")[0].lower(), locale)


_SLOT_PATTERN: Final = re.compile(r"\{([a-z][a-z0-9_-]*)(\.name)?\}")


def fill_slots(text: str, values: Mapping[str, JsonValue]) -> str:
    """Replace every slot by its value; a slot without a value becomes empty."""
    return _SLOT_PATTERN.sub(
        lambda slot: _format_slot_value(values.get(slot[1]), named=bool(slot[2])), text
    )


def _format_slot_value(value: JsonValue, *, named: bool) -> str:
    return (
        get_language_name(value) if named and isinstance(value, str) else format_prompt_value(value)
    )


def find_slots(text: str) -> tuple[str, ...]:
    """Return the slot names of a text, in order."""
    return tuple(name for name, _ in _SLOT_PATTERN.findall(text))


def format_prompt_value(value: JsonValue) -> str:
    """Format a value for a prompt: text unchanged, null as empty text, everything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
