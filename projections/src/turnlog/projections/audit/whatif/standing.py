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
    BlobSource,
    BlueprintTextSource,
    SegmentSource,
    HistorySource,
    Manifest,
    PromptPart,
)
from turnlog.projections.audit.entries import EntryKey, build_part_key

AlterationKind = Literal["cut", "uncut", "gone", "added", "changed"]
"""How a prompt item is altered.

`cut` is shortened or left out to fit, more than before; `uncut` is the reverse; `gone` and `added`
have another reason than size; `changed` has another text.
"""


@dataclass(frozen=True, slots=True)
class PromptAlteration:
    """One item of a prompt that is altered."""

    layer: str
    how: AlterationKind
    rule: str | None
    """The step or condition that did it, or for `uncut` that did it before."""
    first: int | None = None
    """First turn of a history run."""
    last: int | None = None
    """Last turn of the run."""
    segment: int | None = None
    """Number of a library segment."""


def compare_manifests(before: Manifest, after: Manifest) -> tuple[PromptAlteration, ...]:
    """Compare the manifests of two prompts for the same call."""
    return (*_compare_layers(before, after), *_compare_turns(before, after))


def _compare_layers(before: Manifest, after: Manifest) -> Iterator[PromptAlteration]:
    was, now = _index_parts(before), _index_parts(after)
    for key, part in {**was, **now}.items():
        if found := _compare_part(was.get(key), now.get(key)):
            how, rule = found
            segment = part.source.segment if isinstance(part.source, SegmentSource) else None
            yield PromptAlteration(part.layer, how, rule, segment=segment)


def _index_parts(manifest: Manifest) -> Mapping[EntryKey, PromptPart]:
    """Return all parts except history by key and occurrence."""
    seen: Counter[EntryKey] = Counter()
    keyed: dict[EntryKey, PromptPart] = {}
    for part in manifest.parts:
        if not isinstance(part.source, HistorySource):
            key = build_part_key(part)
            keyed[*key, str(seen[key])] = part
            seen[key] += 1
    return keyed


def _compare_part(was: PromptPart | None, now: PromptPart | None) -> tuple[AlterationKind, str | None] | None:
    if was and was.is_included and now and now.is_included:
        return _compare_kept(was, now)
    if was and was.is_included:
        dropped = now is not None and now.treatment == "dropped"
        return ("cut" if dropped else "gone", now.rule if now else None)
    if now and now.is_included:
        dropped = was is not None and was.treatment == "dropped"
        return ("uncut" if dropped else "added", was.rule if was and dropped else now.rule)
    return None


def _compare_kept(was: PromptPart, now: PromptPart) -> tuple[AlterationKind, str | None] | None:
    left, right = _get_cut_size(was), _get_cut_size(now)
    if right is not None and (left is None or right < left):
        return "cut", now.rule
    if left is not None and (right is None or right > left):
        return "uncut", was.rule
    return None if _identify_part_text(was) == _identify_part_text(now) else ("changed", None)


def _get_cut_size(part: PromptPart) -> int | None:
    """Return the remaining length of a part that was cut; None if it was not."""
    return part.cut.to if part.cut else None


def _identify_part_text(part: PromptPart) -> Digest | str | None:
    match part.source:
        case BlobSource(digest=digest) | SegmentSource(digest=digest):
            return digest
        case BlueprintTextSource(text=text):
            return text
        case _:
            return part.digest


def _compare_turns(before: Manifest, after: Manifest) -> Iterator[PromptAlteration]:
    was, now = _collect_kept_turns(before.parts), _collect_kept_turns(after.parts)
    yield from _group_runs("cut", was - now, _map_left_out_turns(after.parts))
    yield from _group_runs("uncut", now - was, _map_left_out_turns(before.parts))


def _collect_kept_turns(parts: Iterable[PromptPart]) -> set[int]:
    return {turn for part in parts if part.is_included for turn in _list_turns(part)}


def _map_left_out_turns(parts: Iterable[PromptPart]) -> Mapping[int, str | None]:
    return {turn: part.rule for part in parts if not part.is_included for turn in _list_turns(part)}


def _list_turns(part: PromptPart) -> range:
    source = part.source
    return range(source.first, source.last + 1) if isinstance(source, HistorySource) else range(0)


def _group_runs(
    how: Literal["cut", "uncut"], turns: Iterable[int], rules: Mapping[int, str | None]
) -> Iterator[PromptAlteration]:
    """Yield alterations of consecutive turns under one rule.

    A turn that no view of the prompt mentions is `gone` or `added`.
    """
    numbered = enumerate(sorted(turns))
    for (_, rule), run in groupby(numbered, key=lambda at: (at[1] - at[0], rules.get(at[1]))):
        held = [turn for _, turn in run]
        unspoken: AlterationKind = "gone" if how == "cut" else "added"
        yield PromptAlteration("history", how if rule else unspoken, rule, held[0], held[-1])
