"""What stands otherwise in two prompts for one call: what is cut, what is no longer, and why.

Both prompts are of the same turn of the same session, so that a part is known again by its layer
and its segment, and history by its turns. Two manifests are enough; no text is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from turnlog.events.content import Digest
from turnlog.events.manifest import (
    FromBlob,
    FromBlueprint,
    FromSegment,
    FromTurns,
    Manifest,
    Part,
)
from turnlog.projections.audit.entries import Key, part_key

How = Literal["cut", "uncut", "gone", "added", "changed"]
"""`cut` to fit, or more than before; `uncut` no longer, or less; `gone` and `added` for another
reason than size; `changed` where another text stands in its place."""


@dataclass(frozen=True, slots=True)
class Altered:
    """Something of a prompt that stands otherwise."""

    layer: str
    how: How
    rule: str | None
    """The step or condition that did it, or that did it before where it is `uncut`."""
    first: int | None = None
    """First turn of a run of history."""
    last: int | None = None
    """Its last turn."""
    segment: int | None = None
    """A segment of the library."""


def altered(before: Manifest, after: Manifest) -> tuple[Altered, ...]:
    """Compare two prompts for one call."""
    return (*_layers(before, after), *_turns(before, after))


def _layers(before: Manifest, after: Manifest) -> Iterator[Altered]:
    was, now = _keyed(before), _keyed(after)
    for key, part in {**was, **now}.items():
        if found := _part(was.get(key), now.get(key)):
            how, rule = found
            segment = part.source.segment if isinstance(part.source, FromSegment) else None
            yield Altered(part.layer, how, rule, segment=segment)


def _keyed(manifest: Manifest) -> Mapping[Key, Part]:
    """Give all parts but history by what they are, and which of those that are the same."""
    seen: Counter[Key] = Counter()
    keyed: dict[Key, Part] = {}
    for part in manifest.parts:
        if not isinstance(part.source, FromTurns):
            key = part_key(part)
            keyed[*key, str(seen[key])] = part
            seen[key] += 1
    return keyed


def _part(was: Part | None, now: Part | None) -> tuple[How, str | None] | None:
    if was and was.kept and now and now.kept:
        return _both(was, now)
    if was and was.kept:
        dropped = now is not None and now.treatment == "dropped"
        return ("cut" if dropped else "gone", now.rule if now else None)
    if now and now.kept:
        dropped = was is not None and was.treatment == "dropped"
        return ("uncut" if dropped else "added", was.rule if was and dropped else now.rule)
    return None


def _both(was: Part, now: Part) -> tuple[How, str | None] | None:
    left, right = _left(was), _left(now)
    if right is not None and (left is None or right < left):
        return "cut", now.rule
    if left is not None and (right is None or right > left):
        return "uncut", was.rule
    return None if _text(was) == _text(now) else ("changed", None)


def _left(part: Part) -> int | None:
    """Give how much is left of a part that was cut; none where all of it is."""
    return part.cut.to if part.cut else None


def _text(part: Part) -> Digest | str | None:
    match part.source:
        case FromBlob(digest=digest) | FromSegment(digest=digest):
            return digest
        case FromBlueprint(text=text):
            return text
        case _:
            return part.digest


def _turns(before: Manifest, after: Manifest) -> Iterator[Altered]:
    was, now = _stood(before.parts), _stood(after.parts)
    yield from _runs("cut", was - now, _left_out(after.parts))
    yield from _runs("uncut", now - was, _left_out(before.parts))


def _stood(parts: Iterable[Part]) -> set[int]:
    return {turn for part in parts if part.kept for turn in _numbers(part)}


def _left_out(parts: Iterable[Part]) -> Mapping[int, str | None]:
    return {turn: part.rule for part in parts if not part.kept for turn in _numbers(part)}


def _numbers(part: Part) -> range:
    source = part.source
    return range(source.first, source.last + 1) if isinstance(source, FromTurns) else range(0)


def _runs(
    how: Literal["cut", "uncut"], turns: Iterable[int], rules: Mapping[int, str | None]
) -> Iterator[Altered]:
    """Join neighbours under one rule; a turn that no view speaks of is gone, or was not there."""
    numbered = enumerate(sorted(turns))
    for (_, rule), run in groupby(numbered, key=lambda at: (at[1] - at[0], rules.get(at[1]))):
        held = [turn for _, turn in run]
        unspoken: How = "gone" if how == "cut" else "added"
        yield Altered("history", how if rule else unspoken, rule, held[0], held[-1])
