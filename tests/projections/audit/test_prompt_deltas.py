"""Differences of two prompts are reported for each part, even if two parts are equal."""

from __future__ import annotations

import pytest

from tests.support.generators.manifest_samples import build_manifest
from turnlog.events.model.manifest import Manifest, PromptPart, SegmentSource
from turnlog.projections.audit.what_if.reassembled_calls import PromptAlteration, compare_manifests

GIVEN = next(part for part in build_manifest().parts if isinstance(part.source, SegmentSource))

KEPT = GIVEN.model_copy(update={"cut": None, "treatment": "kept", "rule": None})

DROPPED = KEPT.model_copy(
    update={"message": None, "role": None, "treatment": "dropped", "rule": "drop_lowest"}
)


def build_parts_manifest(*parts: PromptPart) -> Manifest:
    """Give a manifest of these parts, one an item."""
    items = (part.model_copy(update={"item": f"{place}"}) for place, part in enumerate(parts))
    return build_manifest().model_copy(update={"parts": tuple(items)})


@pytest.mark.parametrize(
    "now", [build_parts_manifest(DROPPED, KEPT), build_parts_manifest(KEPT, DROPPED)]
)
def test_trimmed_segment_is_reported_whichever_of_two_equal_parts_it_is(now: Manifest) -> None:
    cut = PromptAlteration(
        layer="npc", how="cut", rule="drop_lowest", first=None, last=None, segment=7
    )
    assert compare_manifests(build_parts_manifest(KEPT, KEPT), now) == (cut,)
    assert compare_manifests(now, build_parts_manifest(KEPT, KEPT)) == (
        PromptAlteration(
            layer="npc", how="uncut", rule="drop_lowest", first=None, last=None, segment=7
        ),
    )
