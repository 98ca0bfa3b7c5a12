"""Locale tags: how two of them compare, and which ones stand in for another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def format_locale_tag(locale: str | None) -> str:
    """Return the form in which tags are compared: `pt_BR` is `pt-br`, no locale is empty."""
    return (locale or "").replace("_", "-").lower()


def iterate_locale_fallbacks(locales: Sequence[str]) -> Iterator[str]:
    """Yield each locale and its parents, such as `pt-br`, `pt`; the empty locale comes last."""
    for locale in locales:
        tag = format_locale_tag(locale)
        while tag:
            yield tag
            tag = tag.rpartition("-")[0]
    yield ""
