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

from turnlog.projections.audit.entries import Entries, Entry, Key

What = Literal["added", "removed", "changed", "shrunk", "grown", "moved"]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same item in two prompts; None where a manifest does not name it."""

    before: Entry | None
    after: Entry | None

    @property
    def entry(self) -> Entry:
        """The later entry if there is one, otherwise the earlier."""
        found = self.after or self.before
        if found is None:
            raise TypeError("a pair of nothing")
        return found

    @property
    def either(self) -> Entry:
        """The entry that is included in its prompt, the later one first."""
        standing = [each for each in (self.after, self.before) if each and each.stands]
        return standing[0] if standing else self.entry


def paired(before: Entries, after: Entries) -> list[Pair]:
    """Return pairs of entries in the order of the later prompt.

    A removed entry follows its predecessor.
    """
    pairs = {key: Pair(before.get(key), entry) for key, entry in after.items()}
    gone: dict[Key | None, list[Pair]] = {}
    last: Key | None = None
    for key, entry in before.items():
        if key in pairs:
            last = key
        else:
            gone.setdefault(last, []).append(Pair(entry, None))
    return [
        *gone.get(None, ()),
        *(each for key, pair in pairs.items() for each in (pair, *gone.get(key, ()))),
    ]


def differing(before: Entries, after: Entries) -> Iterator[tuple[What, Pair]]:
    """Yield the pairs that differ, and how."""
    moved = _moved(before, after)
    then, here = _around(before), _around(after)
    for pair in paired(before, after):
        if what := _difference(pair, moved) or _set_apart(pair, then, here, moved):
            yield what, pair


def standing(found: Entries) -> list[Entry]:
    """Return the included entries in the order of providers, tools first."""
    stands = (entry for entry in found.values() if entry.stands)
    return sorted(stands, key=lambda entry: entry.part.role != "tools")


def _difference(pair: Pair, moved: frozenset[Key]) -> What | None:
    was, now = pair.before, pair.after
    stood, stands = bool(was and was.stands), bool(now and now.stands)
    if was is None or now is None or not (stood and stands):
        return "added" if stands else "removed" if stood else None
    if was.texts != now.texts:
        return _text(was, now)
    return "moved" if now.key in moved else None


def _text(was: Entry, now: Entry) -> What:
    if [unit[1:] for unit in was.texts] == [unit[1:] for unit in now.texts]:
        return "moved"
    if (was.origin, was.whole) != (now.origin, now.whole) or was.part.cut == now.part.cut:
        return "changed"
    return "shrunk" if now.characters < was.characters else "grown"


def _moved(before: Entries, after: Entries) -> frozenset[Key]:
    """Return the smallest set of entries whose move explains the order of all."""
    stood = [entry.key for entry in standing(before)]
    order = {key: place for place, key in enumerate(stood)}
    keys = [entry.key for entry in standing(after) if entry.key in order]
    staying = _longest([order[key] for key in keys])
    return frozenset(key for key in keys if order[key] not in staying)


def _longest(numbers: Sequence[int]) -> frozenset[int]:
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
class Neighbours:
    """The keys beside an entry in its message; None at the ends of the message."""

    before: Key | None
    after: Key | None


def _around(found: Entries) -> dict[Key, Neighbours]:
    beside: list[Entry | None] = [None, *standing(found), None]
    return {
        here.key: Neighbours(_beside(left, here), _beside(right, here))
        for left, here, right in zip(beside, beside[1:], beside[2:], strict=False)
        if here
    }


def _beside(other: Entry | None, here: Entry) -> Key | None:
    """Return a neighbour in the same message; each turn has messages of its own."""
    if other is None or here.turn is not None or other.turn is not None:
        return None
    return other.key if other.part.message == here.part.message else None


def _set_apart(
    pair: Pair,
    before: Mapping[Key, Neighbours],
    after: Mapping[Key, Neighbours],
    moved: frozenset[Key],
) -> What | None:
    """Return how the surroundings of an entry differ, if its neighbours do not explain it."""
    was, now = pair.before, pair.after
    if was is None or now is None or not (was.stands and now.stands):
        return None
    then, here = before[was.key], after[now.key]
    strange = {then.before, then.after, here.before, here.after} - {None}
    stay = all(key in before and key in after and key not in moved for key in strange if key)
    if then != here:
        return "moved" if stay else None
    around = ((each.part.before, each.part.after) for each in (was, now))
    return "changed" if len(set(around)) > 1 and was.turn is None else None
