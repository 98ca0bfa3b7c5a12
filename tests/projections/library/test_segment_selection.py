"""Which segments, locale and variant a session gets."""

from __future__ import annotations

import dataclasses
from collections import Counter

from tests.support.sessions.segment_harness import SegmentHarness
from turnlog.events.model.segment_events import SegmentText
from turnlog.projections.library.segment_inputs import EditSegment
from turnlog.projections.library.segment_library import SegmentLibrary
from turnlog.projections.library.segment_selection import SegmentRequest, select_segments

RULES = SegmentRequest("ruleset", "r")


def list_chosen_ids(
    library: SegmentLibrary, *locales: str, request: SegmentRequest = RULES, session: str = "s"
) -> list[int]:
    return [each.segment.id for each in select_segments(library, request, locales, session).choices]


async def test_selection_returns_active_segments_of_its_scope_and_reference_in_order() -> None:
    library = SegmentHarness()
    for scope, ref in (("ruleset", "r"), ("ruleset", "q"), ("core", None), ("ruleset", "r")):
        await library.add_segment(scope, "text", ref)
    off = await library.add_segment("ruleset", "text", "r")
    await library.handle_command(EditSegment(id=off, active=False))
    loaded = await library.load_library()
    assert list_chosen_ids(loaded) == [1, 4]
    assert list_chosen_ids(loaded, request=SegmentRequest("core")) == [3]
    assert list_chosen_ids(loaded, request=SegmentRequest("ruleset")) == []


async def test_all_segments_come_from_the_first_locale_that_has_any() -> None:
    library = SegmentHarness()
    for locale in (None, "en", "lt", "lt", "pt"):
        await library.add_segment("ruleset", "text", "r", locale=locale)
    loaded = await library.load_library()
    assert list_chosen_ids(loaded, "lt-LT", "en") == [3, 4]
    assert list_chosen_ids(loaded, "LT_lt") == [3, 4]
    assert list_chosen_ids(loaded, "de", "en") == [2]
    assert list_chosen_ids(loaded, "pt-BR", "lt") == [5]
    assert list_chosen_ids(loaded, "de") == [2], "the default locale stands in"


async def test_segments_without_a_locale_stand_in_where_the_default_locale_has_none() -> None:
    library = SegmentHarness()
    for locale in (None, "lt"):
        await library.add_segment("ruleset", "text", "r", locale=locale)
    assert list_chosen_ids(await library.load_library(), "de-AT") == [1]


async def test_locale_with_inactive_segments_only_is_skipped() -> None:
    library = SegmentHarness()
    await library.add_segment("ruleset", "text", "r", locale="en")
    lithuanian = await library.add_segment("ruleset", "text", "r", locale="lt")
    await library.handle_command(EditSegment(id=lithuanian, active=False))
    assert list_chosen_ids(await library.load_library(), "lt", "en") == [1]


async def test_session_always_gets_the_same_variant_and_sessions_get_both() -> None:
    library = SegmentHarness()
    for _ in range(2):
        number = await library.add_segment("ruleset", "a", "r")
        await library.handle_command(EditSegment(id=number, variant="b", content="b"))
    loaded = await library.load_library()

    def list_variants(session: str) -> tuple[str, ...]:
        choices = select_segments(loaded, RULES, (), session).choices
        return tuple(each.version.variant for each in choices)

    picks = Counter(list_variants(f"session-{n}") for n in range(1_000))
    assert set(picks) == {("a", "a"), ("b", "b")}, "segments of one test are given alike"
    assert 400 < picks["a", "a"] < 600
    assert list_variants("session-7") == list_variants("session-7")


async def test_segment_that_this_release_cannot_use_is_omitted_with_a_reason() -> None:
    library = SegmentHarness()
    number = await library.add_segment("ruleset", "text", "r", locale="lt")
    await library.add_segment("ruleset", "text", "r", locale="en")
    loaded = await library.load_library()
    segment = loaded.segments[number]
    urgent = SegmentText(digest="sha256:0", characters=1, priority="urgent")
    version = dataclasses.replace(segment.versions[0], text=urgent)
    later = dataclasses.replace(segment, versions=(version,))
    loaded = dataclasses.replace(loaded, segments={**loaded.segments, number: later})
    chosen = select_segments(loaded, RULES, ("lt", "en"), "s")
    assert [each.segment.id for each in chosen.choices] == [2]
    (omitted,) = chosen.omitted
    assert omitted.segment == number
    assert "urgent" in omitted.reason
