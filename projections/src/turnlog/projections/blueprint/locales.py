"""Template slots: `{name}` in a text or a path stands for the value of an attribute.

`{name.name}` is the English name of the language of a locale, for prompts that say in which
language to answer. There is no other syntax. The language table belongs to Turnlog and never
changes an existing name, because that would change recorded prompts.
"""

from __future__ import annotations

from typing import Final

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
