from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.projections.audit.comparing import standing
from turnlog.projections.audit.entries import Entries, Entry, Unit


@dataclass(frozen=True, slots=True)
class Agreeing:
    """What two prompts have in common at their beginning."""

    messages: int
    """Number of messages of the first prompt that begin as in the second."""
    tokens: int
    """Tokens of the first prompt's parts before the difference."""
    ended_by: Entry | None = None
    """The first entry that differs: the removed one, or else the one in its place.

    None if the second prompt contains all of the first.
    """
    beside: Entry | None = None
    """The other entry at that position."""


@dataclass(frozen=True, slots=True)
class _Text:
    entry: Entry
    says: Unit
    opens: bool


def agreeing(before: Entries, after: Entries) -> Agreeing:
    """Return the common prefix of two prompts."""
    was, now = list(_texts(before)), list(_texts(after))
    pairs = zip(was, now, strict=False)
    shorter = min(len(was), len(now))
    alike = (place for place, (a, b) in enumerate(pairs) if not _same(a, b))
    same = next(alike, shorter)
    behind = {id(text.entry.part) for text in was[same:]}
    parts = {id(text.entry.part): text.entry.part for text in was[:same]}
    then, here = (texts[same].entry if same < len(texts) else None for texts in (was, now))
    stays = then and then.key in {text.entry.key for text in now}
    ended_by, beside = (here, then) if then and here and stays else (then, here)
    return Agreeing(
        messages=sum(text.opens for text in was[:same]),
        tokens=sum(part.tokens for at, part in parts.items() if at not in behind),
        ended_by=ended_by if then else None,
        beside=beside,
    )


def _same(was: _Text, now: _Text) -> bool:
    return (was.says, was.opens) == (now.says, now.opens)


def _texts(found: Entries) -> Iterator[_Text]:
    message: int | None = None
    for entry in standing(found):
        part = entry.part
        opens = part.message is not None and (entry.turn is not None or part.message != message)
        message = part.message
        for unit in entry.texts:
            around = () if entry.turn is not None else (part.before, part.after)
            yield _Text(entry, (*unit, *around) if any(around) else unit, opens)
