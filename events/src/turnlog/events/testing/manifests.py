"""A manifest with every field filled and a part of every source, for golden bytes."""

from __future__ import annotations

from turnlog.events.content import digest_of
from turnlog.events.manifest import (
    Counter,
    Cut,
    FromBlob,
    FromBlueprint,
    FromEvent,
    FromResolved,
    FromSegment,
    FromTurns,
    Manifest,
    Omission,
    Part,
    Source,
    StepTaken,
)


def manifest() -> Manifest:
    """Return a manifest with a part of every source."""
    return Manifest(
        kind="reply",
        at="2026-11-21T09:30:06.000000Z",
        sequence=6,
        assembler=1,
        counter=Counter(name="chars/4", exact=False),
        budget=4_000,
        tokens=31,
        parts=(
            _part("persona", FromBlob(digest=digest_of("persona"), path="persona.md"), 0),
            _part("language", FromEvent(sequence=1, field="attributes.language"), 0),
            _part("house", FromBlueprint(text="Answer briefly."), 0),
            _part("facts", _facts(), 0),
            _part("history", FromTurns(view="recent", first=1, last=2), 1),
            _fenced(),
            Part(
                layer="hints",
                component="hints",
                characters=400,
                tokens=100,
                treatment="dropped",
                rule="drop hints",
            ),
        ),
        steps=(
            StepTaken(step="lower_tier", on="npc", section="npc", before=40, after=28),
            StepTaken(step="trim", on="npc", before=38, after=31),
        ),
        omitted=(Omission(scope="world", ref="world.two", segment=4, reason="it is empty"),),
        stale=True,
        digest=digest_of("request"),
    )


def _facts() -> FromResolved:
    lines = {"Intent": "intent", "Results": "results"}
    return FromResolved(resolution=5, lines=lines, heading="What was looked up:")


def _fenced() -> Part:
    source = FromSegment(
        segment=7,
        version=2,
        digest=digest_of("segment"),
        scope="npc",
        ref="npc.innkeeper",
        locale="en",
        variant="b",
        tier=1,
        type="npc_description",
        priority="high",
    )
    return Part(
        layer="npc",
        component="npc",
        item="npc.innkeeper",
        source=source,
        before="=== NPC_BEGIN ===\nNPC: npc.innkeeper\n",
        after="\n=== NPC_END ===",
        cut=Cut(of=30, to=20),
        indented=(0, 12),
        message=3,
        role="user",
        characters=74,
        tokens=19,
        treatment="trimmed",
        rule="trim 20",
    )


def _part(layer: str, source: Source, message: int) -> Part:
    return Part(
        layer=layer,
        component=layer,
        source=source,
        message=message,
        role="user" if layer == "history" else "system",
        digest=digest_of(layer),
        characters=28,
        tokens=7,
        treatment="kept",
    )
