"""Differences of two prompts are reported for each part, even if two parts are equal."""

from __future__ import annotations

import pytest

from turnlog.events.manifest import FromSegment, Manifest, Part
from turnlog.events.testing.manifests import manifest
from turnlog.projections.audit.whatif.standing import Altered, altered

GIVEN = next(part for part in manifest().parts if isinstance(part.source, FromSegment))
KEPT = GIVEN.model_copy(update={"cut": None, "treatment": "kept", "rule": None})
DROPPED = KEPT.model_copy(
    update={"message": None, "role": None, "treatment": "dropped", "rule": "drop_lowest"}
)


def of(*parts: Part) -> Manifest:
    """Return a manifest of these parts, one an item."""
    items = (part.model_copy(update={"item": f"{place}"}) for place, part in enumerate(parts))
    return manifest().model_copy(update={"parts": tuple(items)})


@pytest.mark.parametrize("now", [of(DROPPED, KEPT), of(KEPT, DROPPED)])
def test_a_segment_that_two_items_are_given_is_told_of_whichever_loses_it(now: Manifest) -> None:
    cut = Altered("npc", "cut", "drop_lowest", segment=7)
    assert altered(of(KEPT, KEPT), now) == (cut,)
    assert altered(now, of(KEPT, KEPT)) == (Altered("npc", "uncut", "drop_lowest", segment=7),)
