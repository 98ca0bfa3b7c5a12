"""Compares two prompts: what was added, removed, changed, shrunk or moved, and the common prefix.

Entries are matched by their key and never by position. An entry behind a new one has not moved, and
one whose delimiters differ because a neighbour came or went has not changed. For the common prefix,
prompts are laid out as providers do, tools first, and compared message by message; it is computed
from two manifests and independent of the prefix that a call recorded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from turnlog.projections.audit.diff.manifest_entries import (
    EntriesByKey,
    EntryKey,
    ManifestEntry,
    TextUnit,
)

ChangeKind = Literal["added", "removed", "changed", "shrunk", "grown", "moved"]


@dataclass(frozen=True, slots=True)
class EntryPair:
    """The same item in two prompts; None where a manifest does not name it."""

    before: ManifestEntry | None
    after: ManifestEntry | None

    @property
    def entry(self) -> ManifestEntry:
        """The later entry if there is one, otherwise the earlier."""
        found = self.after or self.before
        if found is None:
            raise TypeError("a pair of nothing")
        return found

    @property
    def included_entry(self) -> ManifestEntry:
        """The entry that is included in its prompt, the later one first."""
        included = [each for each in (self.after, self.before) if each and each.is_included]
        return included[0] if included else self.entry


def match_entries(before: EntriesByKey, after: EntriesByKey) -> list[EntryPair]:
    """Return pairs of entries in the order of the later prompt.

    A removed entry follows its predecessor.
    """
    pairs = {key: EntryPair(before.get(key), entry) for key, entry in after.items()}
    removed: dict[EntryKey | None, list[EntryPair]] = {}
    last: EntryKey | None = None
    for key, entry in before.items():
        if key in pairs:
            last = key
        else:
            removed.setdefault(last, []).append(EntryPair(entry, None))
    return [
        *removed.get(None, ()),
        *(each for key, pair in pairs.items() for each in (pair, *removed.get(key, ()))),
    ]


def find_differences(
    before: EntriesByKey, after: EntriesByKey
) -> Iterator[tuple[ChangeKind, EntryPair]]:
    """Yield the pairs that differ, and how."""
    moved = _find_moved(before, after)
    neighbours_before, neighbours_after = _map_neighbours(before), _map_neighbours(after)
    for pair in match_entries(before, after):
        if what := _compare_pair(pair, moved) or _compare_surroundings(
            pair, neighbours_before, neighbours_after, moved
        ):
            yield what, pair


def list_included(entries: EntriesByKey) -> list[ManifestEntry]:
    """Return the included entries in the order of providers, those beside the messages first."""
    included = (entry for entry in entries.values() if entry.is_included)
    return sorted(included, key=lambda entry: entry.part.role not in {"tools", "response_format"})


def _compare_pair(pair: EntryPair, moved: frozenset[EntryKey]) -> ChangeKind | None:
    was, now = pair.before, pair.after
    was_included, is_included = bool(was and was.is_included), bool(now and now.is_included)
    if was is None or now is None or not (was_included and is_included):
        return "added" if is_included else "removed" if was_included else None
    if was.texts != now.texts:
        return _compare_texts(was, now)
    return "moved" if now.key in moved else None


def _compare_texts(was: ManifestEntry, now: ManifestEntry) -> ChangeKind:
    if [unit[1:] for unit in was.texts] == [unit[1:] for unit in now.texts]:
        return "moved"
    if (was.text_origin, was.uncut_characters) != (
        now.text_origin,
        now.uncut_characters,
    ) or was.part.cut == now.part.cut:
        return "changed"
    return "shrunk" if now.characters < was.characters else "grown"


def _find_moved(before: EntriesByKey, after: EntriesByKey) -> frozenset[EntryKey]:
    """Return the smallest set of entries whose move explains the order of all."""
    keys_before = [entry.key for entry in list_included(before)]
    order = {key: place for place, key in enumerate(keys_before)}
    keys = [entry.key for entry in list_included(after) if entry.key in order]
    staying = _find_longest_run([order[key] for key in keys])
    return frozenset(key for key in keys if order[key] not in staying)


def _find_longest_run(numbers: Sequence[int]) -> frozenset[int]:
    """Return the members of a longest increasing subsequence."""
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for number in numbers:
        place = bisect_left(ends, number)
        before[number] = ends[place - 1] if place else None
        ends[place : place + 1] = [number]
    found: set[int] = set()
    at = ends[-1] if ends else None
    while at is not None:
        found.add(at)
        at = before[at]
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class EntryNeighbours:
    """The keys beside an entry in its message; None at the ends of the message."""

    before: EntryKey | None
    after: EntryKey | None


def _map_neighbours(entries: EntriesByKey) -> dict[EntryKey, EntryNeighbours]:
    beside: list[ManifestEntry | None] = [None, *list_included(entries), None]
    return {
        entry.key: EntryNeighbours(_find_neighbour(left, entry), _find_neighbour(right, entry))
        for left, entry, right in zip(beside, beside[1:], beside[2:], strict=False)
        if entry
    }


def _find_neighbour(other: ManifestEntry | None, entry: ManifestEntry) -> EntryKey | None:
    """Return a neighbour in the same message; each turn has messages of its own."""
    if other is None or entry.turn is not None or other.turn is not None:
        return None
    return other.key if other.part.message == entry.part.message else None


def _compare_surroundings(
    pair: EntryPair,
    before: Mapping[EntryKey, EntryNeighbours],
    after: Mapping[EntryKey, EntryNeighbours],
    moved: frozenset[EntryKey],
) -> ChangeKind | None:
    """Return how the surroundings of an entry differ, if its neighbours do not explain it."""
    was, now = pair.before, pair.after
    if was is None or now is None or not (was.is_included and now.is_included):
        return None
    old_neighbours, new_neighbours = before[was.key], after[now.key]
    strange = {
        old_neighbours.before,
        old_neighbours.after,
        new_neighbours.before,
        new_neighbours.after,
    } - {None}
    unmoved = all(key in before and key in after and key not in moved for key in strange if key)
    if old_neighbours != new_neighbours:
        return "moved" if unmoved else None
    around = ((each.part.before, each.part.after) for each in (was, now))
    return "changed" if len(set(around)) > 1 and was.turn is None else None


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
    first_before, first_after = (
        texts[same].entry if same < len(texts) else None for texts in (was, now)
    )
    still_included = first_before and first_before.key in {text.entry.key for text in now}
    ended_by, beside = (
        (first_after, first_before)
        if first_before and first_after and still_included
        else (first_before, first_after)
    )
    return CommonPrefix(
        messages=sum(text.starts_message for text in was[:same]),
        tokens=sum(part.tokens for at, part in parts.items() if at not in behind),
        first_difference=ended_by if first_before else None,
        counterpart=beside,
    )


def _is_same_text(was: _PrefixText, now: _PrefixText) -> bool:
    return (was.unit, was.starts_message) == (now.unit, now.starts_message)


def _iterate_texts(entries: EntriesByKey) -> Iterator[_PrefixText]:
    message: int | None = None
    for entry in list_included(entries):
        part = entry.part
        is_apart = part.message is not None and not part.is_reply_reasoning
        opens = is_apart and (entry.turn is not None or part.message != message)
        message = part.message
        for unit in entry.texts:
            around = () if entry.turn is not None else (part.before, part.after)
            yield _PrefixText(entry, (*unit, *around) if any(around) else unit, opens)
