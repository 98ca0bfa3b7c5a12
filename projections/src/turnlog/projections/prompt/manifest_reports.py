"""Reports computed from a manifest alone: what each layer contributes, and tokens saved.

A manifest lists parts. `list_layer_reports` groups them by layer, for an application that wants to
know how its input was used. `compute_token_savings` sums what trim steps, condensing, summaries and
exclusions saved, as the manifest records it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from turnlog.events.model.manifest import Manifest, PromptPart, SegmentSource, TextTruncation
from turnlog.projections.prompt.sources.offered_tools import LEAVE_OUT_TOOL_STEP


@dataclass(frozen=True, slots=True)
class LoweredItem:
    """An item that is included with fewer tiers than the turn allows."""

    item: str
    from_tier: int
    """The highest tier that would have been included."""
    to_tier: int
    """The highest tier that is included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReport:
    """How one layer is included in a prompt, or why it is not."""

    layer: str
    stands: bool
    segments: tuple[int, ...]
    """Ids of the included segments, in order."""
    trimmed: TextTruncation | None
    compressed: bool
    lowered: tuple[LoweredItem, ...]
    dropped_items: tuple[str, ...]
    """Items of which nothing is left."""
    replaced_items: tuple[str, ...]
    """Items whose texts were replaced by a shorter one."""
    dropped: bool
    """Whether the whole layer was left out to make room."""


def list_layer_reports(manifest: Manifest) -> tuple[LayerReport, ...]:
    """Return a report for every layer in prompt order, except history and what is beside it."""
    layers: dict[str, list[PromptPart]] = {}
    for part in manifest.parts:
        is_beside = part.role in {"tools", "response_format"} or part.rule == LEAVE_OUT_TOOL_STEP
        if part.layer != "history" and not is_beside:
            layers.setdefault(part.layer, []).append(part)
    return tuple(_build_layer_report(layer, parts) for layer, parts in layers.items())


def _build_layer_report(layer: str, parts: Sequence[PromptPart]) -> LayerReport:
    included = [part for part in parts if part.is_included]
    cuts = {part.treatment: part.cut for part in included if part.cut}
    return LayerReport(
        layer=layer,
        stands=bool(included),
        segments=tuple(source.segment for _, source in _list_segment_parts(included)),
        trimmed=cuts.get("trimmed"),
        compressed=bool(included) and any(part.treatment == "compressed" for part in parts),
        lowered=tuple(_find_lowered_items(parts)),
        dropped_items=tuple(_find_dropped_items(parts)),
        replaced_items=tuple(
            dict.fromkeys(part.item for part in included if part.item and part.rule == "replace")
        ),
        dropped=not included and any(part.treatment == "dropped" for part in parts),
    )


def _find_lowered_items(parts: Sequence[PromptPart]) -> Iterator[LoweredItem]:
    included = [
        (part, source)
        for part, source in _list_segment_parts(parts)
        if part.treatment != "absent" and not (part.is_included and part.rule == "replace")
    ]
    for item, those in groupby(included, lambda pair: pair[0].item or pair[1].ref or ""):
        pairs = list(those)
        if any(part.rule == "lower_tier" for part, _ in pairs):
            left = (source.tier for part, source in pairs if part.rule != "lower_tier")
            yield LoweredItem(item, max(source.tier for _, source in pairs), max(left))


def _find_dropped_items(parts: Sequence[PromptPart]) -> Iterator[str]:
    """Yield the items of which something was to be included and nothing is left."""
    items = dict.fromkeys(part.item for part in parts if part.treatment == "dropped")
    included = {part.item for part in parts if part.is_included}
    yield from (item for item in items if item and item not in included)


def _list_segment_parts(parts: Sequence[PromptPart]) -> list[tuple[PromptPart, SegmentSource]]:
    return [(part, part.source) for part in parts if isinstance(part.source, SegmentSource)]


def sum_component_tokens(parts: Iterable[PromptPart]) -> dict[str, int]:
    """Return the tokens of each component among the parts that a prompt includes."""
    tokens: dict[str, int] = {}
    for part in parts:
        if part.is_included:
            tokens[part.component] = tokens.get(part.component, 0) + part.tokens
    return tokens


_SHORTENED_TREATMENTS = frozenset({"condensed", "summarised"})


def compute_token_savings(manifest: Manifest) -> dict[str, int]:
    """Return the tokens that each rule saved, by the rule's name."""
    found: dict[str, int] = {}
    for step in manifest.steps:
        found[step.step] = found.get(step.step, 0) + step.before - step.after
    taken = frozenset(found)
    for part in manifest.parts:
        word = (part.rule or "").partition(" ")[0]
        is_shortened = part.is_included and part.treatment in _SHORTENED_TREATMENTS
        if (is_shortened or part.saved) and word not in taken:
            found[word] = found.get(word, 0) + part.saved
    return found
