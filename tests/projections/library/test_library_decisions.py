"""Decisions on library commands, and what an import leads to."""

from __future__ import annotations

import dataclasses

import pytest

from tests.support.sessions.segment_harness import SegmentHarness
from turnlog.events.errors import Refused
from turnlog.projections.library.segment_inputs import (
    EditSegment,
    SegmentInput,
    find_segment_faults,
)

RULES = SegmentInput(scope="ruleset", content="Roll two dice.", ref="ruleset.classic")

CUE = SegmentInput(
    scope="npc", content="He nods.", ref="npc.innkeeper", type="npc_cue", tier=1, priority="high"
)


async def test_segment_numbers_are_assigned_in_order_and_never_reused() -> None:
    library = SegmentHarness()
    assert [await library.add_segment("core", "one"), await library.add_segment("core", "one")] == [
        1,
        2,
    ]
    await library.handle_command(EditSegment(id=2, active=False))
    assert await library.add_segment("core", "three") == 3


async def test_edit_adds_a_version_and_keeps_the_previous_one() -> None:
    library = SegmentHarness()
    number = await library.add_segment("core", "one")
    done = await library.handle_command(EditSegment(id=number, content="two", tier=2))
    segment = done.state.segments[number]
    assert [each.version for each in segment.versions] == [1, 2]
    assert [each.text.tier for each in segment.versions] == [0, 2]
    assert segment.latest_versions["a"].version == 2


async def test_edit_without_changes_records_no_event() -> None:
    library = SegmentHarness()
    number = await library.add_segment("core", "one")
    before = (await library.load_library()).sequence
    done = await library.handle_command(EditSegment(id=number, content="one", active=True))
    assert done.state.sequence == before
    assert done.changes.sequence == before


async def test_variant_is_added_beside_others_and_is_deactivated_separately() -> None:
    library = SegmentHarness()
    number = await library.add_segment("core", "one")
    await library.handle_command(EditSegment(id=number, variant="b", content="other"))
    segment = (
        await library.handle_command(EditSegment(id=number, variant="a", active=False))
    ).state.segments[number]
    assert list(segment.latest_versions) == ["a", "b"]
    assert list(segment.active_versions) == ["b"]
    segment = (await library.handle_command(EditSegment(id=number, active=False))).state.segments[
        number
    ]
    assert not segment.is_active
    segment = (
        await library.handle_command(EditSegment(id=number, variant="c", content="new"))
    ).state.segments[number]
    assert not segment.is_active, "a variant that is new to a switched-off segment is off too"


@pytest.mark.parametrize(
    ("command", "code", "field"),
    [
        (EditSegment(id=9, content="x"), "unknown-segment", "segment"),
        (EditSegment(id=1, content="x", seen=7), "segment-moved", "version"),
        (EditSegment(id=1, content="  \n"), "invalid", "content"),
        (EditSegment(id=1, content="a\0"), "invalid", "content"),
        (EditSegment(id=1, tier=-1), "invalid", "tier"),
        (EditSegment(id=1, priority="urgent"), "invalid", "priority"),
        (EditSegment(id=1, variant="b"), "invalid", "content"),
        (EditSegment(id=1, variant="No Name", content="x"), "invalid", "variant"),
    ],
)
async def test_invalid_command_is_refused_with_its_field_and_changes_nothing(
    command: EditSegment, code: str, field: str
) -> None:
    library = SegmentHarness()
    await library.add_segment("core", "one")
    with pytest.raises(Refused) as refused:
        await library.handle_command(command)
    assert (refused.value.code, refused.value.field) == (code, field)
    assert (await library.load_library()).sequence == 1


def test_all_faults_of_a_segment_are_reported_together() -> None:
    wrong = SegmentInput(
        scope="Core!",
        content="",
        ref="no id",
        locale="english?",
        tier=-1,
        type="a b",
        priority="urgent",
        variant="B",
        id=0,
    )
    assert [flaw.field for flaw in find_segment_faults(wrong)] == [
        "content",
        "scope",
        "variant",
        "ref",
        "locale",
        "tier",
        "type",
        "priority",
        "id",
    ]


async def test_repeated_import_changes_nothing() -> None:
    library = SegmentHarness()
    rows = (RULES, CUE, CUE, dataclasses.replace(RULES, id=40, locale="lt", active=False))
    first = await library.import_segments(*rows)
    assert first.changes.added == (40, 41, 42, 43)
    again = await library.import_segments(*rows)
    assert again.changes.added == again.changes.edited == ()
    assert again.state.segments == first.state.segments


async def test_imported_row_with_an_id_edits_the_segment_of_that_id() -> None:
    library = SegmentHarness()
    await library.import_segments(dataclasses.replace(RULES, id=5))
    other = dataclasses.replace(RULES, id=5, content="Roll three.", active=False)
    beside = dataclasses.replace(RULES, id=5, content="Roll none.", variant="b")
    done = await library.import_segments(other, beside)
    segment = done.state.segments[5]
    assert done.changes.added == ()
    assert done.changes.edited == (5,)
    assert [(each.version, each.variant) for each in segment.versions] == [
        (1, "a"),
        (2, "a"),
        (3, "b"),
    ]
    assert list(segment.active_versions) == ["b"]


async def test_imported_version_number_is_kept_if_it_is_above_all_earlier_ones() -> None:
    library = SegmentHarness()
    moved = dataclasses.replace(RULES, id=5, version=4)
    first = await library.import_segments(moved)
    assert [each.version for each in first.state.segments[5].versions] == [4]
    assert (await library.import_segments(moved)).changes.edited == ()
    for content, version in (("Roll three.", 9), ("Roll four.", 2), ("Roll five.", None)):
        row = dataclasses.replace(moved, content=content, version=version)
        done = await library.import_segments(row)
    assert [each.version for each in done.state.segments[5].versions] == [4, 9, 10, 11]


async def test_one_import_creates_a_segment_with_all_its_variants() -> None:
    library = SegmentHarness()
    rows = [dataclasses.replace(RULES, id=3, variant=name, content=name) for name in "ab"]
    done = await library.import_segments(*rows)
    assert list(done.state.segments[3].active_versions) == ["a", "b"]
    assert (await library.import_segments(*rows)).changes.edited == ()


@pytest.mark.parametrize(
    ("bad", "code", "field"),
    [
        (dataclasses.replace(RULES, content=""), "invalid", "segments.1.content"),
        (dataclasses.replace(RULES, scope="world", id=1), "segment-taken", "segments.1.id"),
        (dataclasses.replace(RULES, variant="b"), "invalid", "segments.1.id"),
        (dataclasses.replace(RULES, id=7), "invalid", "segments.1.id"),
        (dataclasses.replace(RULES, version=0), "invalid", "segments.1.version"),
    ],
)
async def test_import_with_one_invalid_row_changes_nothing(
    bad: SegmentInput, code: str, field: str
) -> None:
    library = SegmentHarness()
    await library.add_segment("core", "one")
    with pytest.raises(Refused) as refused:
        await library.import_segments(dataclasses.replace(RULES, id=7), bad)
    assert (refused.value.code, refused.value.field) == (code, field)
    assert list((await library.load_library()).segments) == [1]


async def test_import_accepts_thousands_of_rows_and_splits_them_into_events() -> None:
    library = SegmentHarness()
    rows = [dataclasses.replace(RULES, content=f"Rule {n}.") for n in range(2_500)]
    done = await library.import_segments(*rows)
    assert len(done.changes.added) == 2_500
    assert done.state.sequence == 50, "an event holds some of them, never all"
