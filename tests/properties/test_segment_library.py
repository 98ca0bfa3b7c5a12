"""An import into any library is applied completely or not at all."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.codec import EventDraft, decode_event, encode_batch
from turnlog.events.errors import Refused
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.registry import LibraryEvent
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.events.testing import FIRST_EVENT_TIME, make_id
from turnlog.projections.library.library_decisions import decide
from turnlog.projections.library.segment_inputs import (
    EditSegment,
    ImportSegments,
    LibraryCommand,
    SegmentInput,
)
from turnlog.projections.library.segment_library import LibrarySegment, SegmentLibrary, fold
from turnlog.projections.library.segment_selection import SegmentRequest, select_segments

pytestmark = pytest.mark.slow("many generated cases are tried")

NUMBERS = st.integers(1, 5)

VARIANTS = st.sampled_from("ab")

CONTENTS = st.sampled_from(["x", "y", "z"])

FLAGS = st.booleans()

VERSIONS = st.none() | st.integers(1, 9)

LOCALES = st.sampled_from([None, "en", "lt"])


def build_segment_strategy(number: int) -> st.SearchStrategy[SegmentInput]:
    # A number is of one place: otherwise nearly every import would be refused
    return st.builds(
        SegmentInput,
        scope=st.just("npc"),
        ref=st.just(f"npc.{number % 2}"),
        content=CONTENTS,
        tier=st.integers(0, 1),
        variant=VARIANTS,
        active=FLAGS,
        id=st.just(number),
        version=VERSIONS,
    )


UNNUMBERED = st.builds(
    SegmentInput,
    scope=st.just("npc"),
    ref=st.sampled_from(["npc.0", "npc.1"]),
    content=CONTENTS,
    locale=LOCALES,
    active=FLAGS,
    version=VERSIONS,
)

ROWS = st.lists(NUMBERS.flatmap(build_segment_strategy) | UNNUMBERED, max_size=8).map(tuple)

EDITS = st.builds(
    EditSegment,
    id=NUMBERS,
    variant=st.none() | VARIANTS,
    content=st.none() | CONTENTS,
    active=st.none() | FLAGS,
)

COMMANDS = st.lists(ROWS.map(ImportSegments) | EDITS, max_size=6)


def record_events(library: SegmentLibrary, events: tuple[LibraryEvent, ...]) -> SegmentLibrary:
    """Record events, and fold what was stored."""
    if not events:
        return library
    drafts = [
        EventDraft(event=event, id=make_id(1), at=FIRST_EVENT_TIME, source="/test", actor="ann")
        for event in events
    ]
    batch = encode_batch(
        tenant="t", session=SEGMENT_FAMILY, after=library.head, drafts=drafts, kind=LIBRARY_HISTORY
    )
    stored = enumerate((message.payload for message in batch.messages), library.sequence + 1)
    return fold([decode_event(payload, place) for place, payload in stored], library)


def run_commands(commands: list[LibraryCommand]) -> SegmentLibrary:
    """Give the library these commands lead to; what is refused leads nowhere."""
    library = SegmentLibrary(tenant="t")
    for command in commands:
        try:
            library = record_events(library, decide(library, command))
        except Refused:
            continue
    return library


def matches_input(segment: LibrarySegment, row: SegmentInput) -> bool:
    version = (
        segment.active_versions.get(row.variant)
        if row.active
        else segment.latest_versions.get(row.variant)
    )
    place = (segment.scope, segment.ref, segment.locale)
    if version is None or place != (row.scope, row.ref, row.locale):
        return False
    return version.text == row.text and (row.variant in segment.active_versions) == row.active


@given(commands=COMMANDS, rows=ROWS)
def test_import_is_applied_completely_and_is_idempotent(
    commands: list[LibraryCommand], rows: tuple[SegmentInput, ...]
) -> None:
    before = run_commands(commands)
    try:
        events = decide(before, ImportSegments(rows))
    except Refused as refused:
        twice = len({(row.id, row.variant) for row in rows if row.id}) < sum(
            row.id is not None for row in rows
        )
        if twice or refused.code == "segment-taken":
            return
        raise
    after = record_events(before, events)
    assert decide(after, ImportSegments(rows)) == ()
    assert all(matches_input(after.segments[row.id], row) for row in rows if row.id)
    for row, count in Counter(row for row in rows if row.id is None).items():
        assert sum(matches_input(segment, row) for segment in after.segments.values()) >= count


@given(commands=COMMANDS)
def test_segment_versions_increase_and_no_earlier_version_is_lost(
    commands: list[LibraryCommand],
) -> None:
    library = SegmentLibrary(tenant="t")
    for command in commands:
        before = library
        try:
            library = record_events(before, decide(before, command))
        except Refused:
            continue
        for number, segment in before.segments.items():
            now = library.segments[number].versions
            assert now[: len(segment.versions)] == segment.versions
    for segment in library.segments.values():
        numbers = [version.version for version in segment.versions]
        assert numbers == sorted({*numbers})


@given(
    commands=COMMANDS,
    session=st.text(max_size=8),
    locales=st.lists(st.sampled_from(["en", "lt-LT"])),
)
def test_selected_segments_are_active_of_one_locale_and_deterministic(
    commands: list[LibraryCommand], session: str, locales: list[str]
) -> None:
    library = run_commands(commands)
    chosen = select_segments(library, SegmentRequest("npc", "npc.1"), locales, session)
    assert not chosen.omitted
    assert len({each.segment.locale for each in chosen.choices}) <= 1
    for each in chosen.choices:
        assert each.segment.active_versions[each.version.variant] == each.version
    assert chosen == select_segments(library, SegmentRequest("npc", "npc.1"), locales, session)
