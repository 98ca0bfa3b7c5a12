"""A manifest with every field filled and a part of every source, for golden bytes."""

from __future__ import annotations

from turnlog.events.content import compute_digest
from turnlog.events.model.manifest import (
    AppliedTrimStep,
    BlobSource,
    BlueprintTextSource,
    CounterRef,
    EventTextSource,
    HistorySource,
    Manifest,
    ParentInputSource,
    PartSource,
    PromptPart,
    ResolutionSource,
    SegmentOmission,
    SegmentSource,
    TextTruncation,
)


def build_manifest() -> Manifest:
    """Return a manifest with a part of every source."""
    return Manifest(
        kind="reply",
        at="2026-11-21T09:30:06.000000Z",
        sequence=6,
        assembler=1,
        counter=CounterRef(name="chars/4", exact=False),
        budget=4_000,
        tokens=31,
        parts=(
            _build_part(
                "persona", BlobSource(digest=compute_digest("persona"), path="persona.md"), 0
            ),
            _build_part("language", EventTextSource(sequence=1, field="attributes.language"), 0),
            _build_part("house", BlueprintTextSource(text="Answer briefly."), 0),
            _build_part("facts", _build_resolution_source(), 0),
            _build_part("history", HistorySource(view="recent", first=1, last=2), 1),
            _build_delimited_part(),
            PromptPart(
                layer="hints",
                component="hints",
                characters=400,
                tokens=100,
                treatment="dropped",
                rule="drop hints",
            ),
        ),
        steps=(
            AppliedTrimStep(step="lower_tier", on="npc", section="npc", before=40, after=28),
            AppliedTrimStep(step="trim", on="npc", before=38, after=31),
        ),
        omitted=(SegmentOmission(scope="world", ref="world.two", segment=4, reason="it is empty"),),
        stale=True,
        digest=compute_digest("request"),
    )


def build_corrected_manifest() -> Manifest:
    """Return a manifest whose counts and budget follow what a provider said."""
    counter = CounterRef(name="chars/4", exact=False, factor=3.65, measured_in="2.1")
    changes: dict[str, object] = {"counter": counter, "lowered_by": "3.1", "budget": 3_500}
    return build_manifest().model_copy(update=changes)


def build_handed_manifest() -> Manifest:
    """Return a manifest with an input of a parent's turn."""
    source = ParentInputSource(
        handed=6, input="diff", session="s-1", turn=2, digest=compute_digest("+sail()")
    )
    return build_manifest().model_copy(update={"parts": (_build_part("diff", source, 0),)})


def _build_resolution_source() -> ResolutionSource:
    lines = {"Intent": "intent", "Results": "results"}
    return ResolutionSource(resolution=5, lines=lines, heading="What was looked up:")


def _build_delimited_part() -> PromptPart:
    source = SegmentSource(
        segment=7,
        version=2,
        digest=compute_digest("segment"),
        scope="npc",
        ref="npc.innkeeper",
        locale="en",
        variant="b",
        tier=1,
        type="npc_description",
        priority="high",
    )
    return PromptPart(
        layer="npc",
        component="npc",
        item="npc.innkeeper",
        source=source,
        before="=== NPC_BEGIN ===\nNPC: npc.innkeeper\n",
        after="\n=== NPC_END ===",
        cut=TextTruncation(of=30, to=20),
        indented=(0, 12),
        message=3,
        role="user",
        characters=74,
        tokens=19,
        treatment="trimmed",
        rule="trim 20",
    )


def _build_part(layer: str, source: PartSource, message: int) -> PromptPart:
    return PromptPart(
        layer=layer,
        component=layer,
        source=source,
        message=message,
        role="user" if layer == "history" else "system",
        digest=compute_digest(layer),
        characters=28,
        tokens=7,
        treatment="kept",
    )
