from __future__ import annotations

from collections.abc import Mapping

from turnlog.events.content import compute_digest
from turnlog.events.library import (
    LibraryEvent,
    NewSegment,
    NewSegmentVersion,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
    SegmentText,
)

SAMPLE_SEGMENT_TEXT = SegmentText(
    digest=compute_digest("He wipes a glass."), characters=17, tier=1, type="npc_cue", priority="high"
)


def build_library_samples() -> Mapping[str, LibraryEvent]:
    """Return one event of every library type by name, with every field filled."""
    innkeeper = NewSegment(
        id=7,
        scope="npc",
        ref="npc.innkeeper",
        locale="lt-LT",
        variant="b",
        active=False,
        text=SAMPLE_SEGMENT_TEXT,
    )
    return {
        "segments-added": SegmentsAdded(segments=(innkeeper,)),
        "segments-edited": SegmentsEdited(
            versions=(NewSegmentVersion(id=7, version=2, variant="c", text=SAMPLE_SEGMENT_TEXT),)
        ),
        "segments-deactivated": SegmentsDeactivated(segments=(7, 9), variant="b"),
        "segments-activated": SegmentsActivated(segments=(7,), variant="b"),
    }
