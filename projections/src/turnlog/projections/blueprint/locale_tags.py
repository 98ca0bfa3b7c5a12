"""The fallback rule of locales, and how tags of locales compare and are spelled.

Prompt files, cartridges, replacements and segments all follow it: a text is looked for in the
requested locale, in each shorter tag of it, in the default locale, and then without a locale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

DEFAULT_LOCALE: Final = "en"
"""The locale whose text stands in where the requested locales have none."""

_REGION_LENGTH: Final = 2
_SCRIPT_LENGTH: Final = 4


def format_locale_tag(locale: str | None) -> str:
    """Return the form in which tags are compared: `pt_BR` is `pt-br`, no locale is empty."""
    return (locale or "").replace("_", "-").lower()


def iterate_locale_fallbacks(locales: Sequence[str]) -> Iterator[str]:
    """Yield the tags to try, the first that has a text wins: `de-at`, `de`, `en`, and no locale.

    Several locales are tried in their order, each followed by its shorter tags.
    """
    for locale in (*locales, DEFAULT_LOCALE):
        tag = format_locale_tag(locale)
        while tag:
            yield tag
            tag = tag.rpartition("-")[0]
    yield ""


def list_tag_spellings(tag: str) -> tuple[str, ...]:
    """Return how a file may spell a tag, the usual form of RFC 5646 first.

    `pt-br` may be `pt-BR`, `pt-br` or `PT-BR`, with `_` in place of `-` too.
    """
    first, *others = tag.split("-")
    usual = "-".join((first, *map(_format_subtag, others)))
    spelled = (usual, tag, tag.upper())
    return tuple(dict.fromkeys((*spelled, *(each.replace("-", "_") for each in spelled))))


def _format_subtag(subtag: str) -> str:
    match len(subtag):
        case length if length == _REGION_LENGTH:
            return subtag.upper()
        case length if length == _SCRIPT_LENGTH:
            return subtag.title()
        case _:
            return subtag
