from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.projections.audit.comparing import list_included
from turnlog.projections.audit.entries import EntriesByKey, ManifestEntry, TextUnit


@dataclass(frozen=True, slots=True)
class CommonPrefix:
    """What two prompts have in common at their beginning."""

    messages: int
    """Number of messages of the first prompt that begin as in the second."""
    tokens: int
    """Tokens of the first prompt's parts before the difference."""
    first_difference: ManifestEntry | None = None
    """The first entry that differs: the removed one, or else the one in its place.

    None if the second prompt contains all of the first.
    """
    counterpart: ManifestEntry | None = None
    """The other entry at that position."""


@dataclass(frozen=True, slots=True)
class _PrefixText:
    entry: ManifestEntry
    unit: TextUnit
    starts_message: bool


def find_common_prefix(before: EntriesByKey, after: EntriesByKey) -> CommonPrefix:
    """Return the common prefix of two prompts."""
    was, now = list(_iterate_texts(before)), list(_iterate_texts(after))
    pairs = zip(was, now, strict=False)
    shorter = min(len(was), len(now))
    alike = (place for place, (a, b) in enumerate(pairs) if not _is_same_text(a, b))
    same = next(alike, shorter)
    behind = {id(text.entry.part) for text in was[same:]}
    parts = {id(text.entry.part): text.entry.part for text in was[:same]}
    then, here = (texts[same].entry if same < len(texts) else None for texts in (was, now))
    stays = then and then.key in {text.entry.key for text in now}
    ended_by, beside = (here, then) if then and here and stays else (then, here)
    return CommonPrefix(
        messages=sum(text.starts_message for text in was[:same]),
        tokens=sum(part.tokens for at, part in parts.items() if at not in behind),
        first_difference=ended_by if then else None,
        counterpart=beside,
    )


def _is_same_text(was: _PrefixText, now: _PrefixText) -> bool:
    return (was.unit, was.starts_message) == (now.unit, now.starts_message)


def _iterate_texts(entries: EntriesByKey) -> Iterator[_PrefixText]:
    message: int | None = None
    for entry in list_included(entries):
        part = entry.part
        opens = part.message is not None and (entry.turn is not None or part.message != message)
        message = part.message
        for unit in entry.texts:
            around = () if entry.turn is not None else (part.before, part.after)
            yield _PrefixText(entry, (*unit, *around) if any(around) else unit, opens)
