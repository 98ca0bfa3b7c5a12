"""Recorded calls, assembled again under a change, and how each prompt would have been altered.

The result is exact for context and not for behaviour: the recorded replies are used for all later
calls. Each call follows the reassembled call before it, so that the prefix a provider's cache could
reuse is correct. Nothing is written and no model is called. Alterations are found by comparing two
manifests of the same turn; no text is read.
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
"""How a prompt item is altered.

`cut` is shortened or left out to fit, more than before; `uncut` is the reverse; `gone` and `added`
have another reason than size; `changed` has another text.
"""


@dataclass(frozen=True, slots=True)
class Altered:
    """One item of a prompt that is altered."""

    layer: str
    how: How
    rule: str | None
    """The step or condition that did it, or for `uncut` that did it before."""
    first: int | None = None
    """First turn of a history run."""
    last: int | None = None
    """Last turn of the run."""
    segment: int | None = None
    """Number of a library segment."""


def altered(before: Manifest, after: Manifest) -> tuple[Altered, ...]:
    """Compare the manifests of two prompts for the same call."""
    return (*_layers(before, after), *_turns(before, after))


def _layers(before: Manifest, after: Manifest) -> Iterator[Altered]:
    was, now = _keyed(before), _keyed(after)
    for key, part in {**was, **now}.items():
        if found := _part(was.get(key), now.get(key)):
            how, rule = found
            segment = part.source.segment if isinstance(part.source, FromSegment) else None
            yield Altered(part.layer, how, rule, segment=segment)


def _keyed(manifest: Manifest) -> Mapping[Key, Part]:
    """Return all parts except history by key and occurrence."""
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
    """Return the remaining length of a part that was cut; None if it was not."""
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
    """Yield alterations of consecutive turns under one rule.

    A turn that no view of the prompt mentions is `gone` or `added`.
    """
    numbered = enumerate(sorted(turns))
    for (_, rule), run in groupby(numbered, key=lambda at: (at[1] - at[0], rules.get(at[1]))):
        held = [turn for _, turn in run]
        unspoken: How = "gone" if how == "cut" else "added"
        yield Altered("history", how if rule else unspoken, rule, held[0], held[-1])
