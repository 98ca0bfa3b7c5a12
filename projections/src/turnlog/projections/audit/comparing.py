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

from turnlog.projections.audit.entries import EntriesByKey, ManifestEntry, EntryKey

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
        standing = [each for each in (self.after, self.before) if each and each.is_included]
        return standing[0] if standing else self.entry


def match_entries(before: EntriesByKey, after: EntriesByKey) -> list[EntryPair]:
    """Return pairs of entries in the order of the later prompt.

    A removed entry follows its predecessor.
    """
    pairs = {key: EntryPair(before.get(key), entry) for key, entry in after.items()}
    gone: dict[EntryKey | None, list[EntryPair]] = {}
    last: EntryKey | None = None
    for key, entry in before.items():
        if key in pairs:
            last = key
        else:
            gone.setdefault(last, []).append(EntryPair(entry, None))
    return [
        *gone.get(None, ()),
        *(each for key, pair in pairs.items() for each in (pair, *gone.get(key, ()))),
    ]


def find_differences(before: EntriesByKey, after: EntriesByKey) -> Iterator[tuple[ChangeKind, EntryPair]]:
    """Yield the pairs that differ, and how."""
    moved = _find_moved(before, after)
    then, here = _map_neighbours(before), _map_neighbours(after)
    for pair in match_entries(before, after):
        if what := _compare_pair(pair, moved) or _compare_surroundings(pair, then, here, moved):
            yield what, pair


def list_included(entries: EntriesByKey) -> list[ManifestEntry]:
    """Return the included entries in the order of providers, tools first."""
    stands = (entry for entry in entries.values() if entry.is_included)
    return sorted(stands, key=lambda entry: entry.part.role != "tools")


def _compare_pair(pair: EntryPair, moved: frozenset[EntryKey]) -> ChangeKind | None:
    was, now = pair.before, pair.after
    stood, stands = bool(was and was.is_included), bool(now and now.is_included)
    if was is None or now is None or not (stood and stands):
        return "added" if stands else "removed" if stood else None
    if was.texts != now.texts:
        return _compare_texts(was, now)
    return "moved" if now.key in moved else None


def _compare_texts(was: ManifestEntry, now: ManifestEntry) -> ChangeKind:
    if [unit[1:] for unit in was.texts] == [unit[1:] for unit in now.texts]:
        return "moved"
    if (was.text_origin, was.uncut_characters) != (now.text_origin, now.uncut_characters) or was.part.cut == now.part.cut:
        return "changed"
    return "shrunk" if now.characters < was.characters else "grown"


def _find_moved(before: EntriesByKey, after: EntriesByKey) -> frozenset[EntryKey]:
    """Return the smallest set of entries whose move explains the order of all."""
    stood = [entry.key for entry in list_included(before)]
    order = {key: place for place, key in enumerate(stood)}
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
        here.key: EntryNeighbours(_find_neighbour(left, here), _find_neighbour(right, here))
        for left, here, right in zip(beside, beside[1:], beside[2:], strict=False)
        if here
    }


def _find_neighbour(other: ManifestEntry | None, here: ManifestEntry) -> EntryKey | None:
    """Return a neighbour in the same message; each turn has messages of its own."""
    if other is None or here.turn is not None or other.turn is not None:
        return None
    return other.key if other.part.message == here.part.message else None


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
    then, here = before[was.key], after[now.key]
    strange = {then.before, then.after, here.before, here.after} - {None}
    stay = all(key in before and key in after and key not in moved for key in strange if key)
    if then != here:
        return "moved" if stay else None
    around = ((each.part.before, each.part.after) for each in (was, now))
    return "changed" if len(set(around)) > 1 and was.turn is None else None
