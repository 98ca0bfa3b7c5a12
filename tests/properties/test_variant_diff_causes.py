"""The diff of segments with variants: by session name, and by library changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.suite_extent import choose_examples
from tests.properties.test_diff_causes import extract_reasons, iterate_changed_things
from tests.properties.test_two_session_diff_causes import copy_to_session
from tests.support.generators.expected_diff import DiffReasons
from tests.support.generators.tracked_session import (
    TRACKED_LAYERS,
    TrackedSession,
    build_segment_text,
    build_tracked_blueprint,
)
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.segment_events import (
    NewSegment,
    NewSegmentVersion,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
)
from turnlog.events.registry import LibraryEvent
from turnlog.projections.audit.diff.call_diff import compare_calls
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot, build_call_snapshot
from turnlog.projections.audit.record.partial_log import build_complete_log
from turnlog.projections.library.segment_library import SegmentLibrary, SegmentVersion, fold
from turnlog.projections.library.segment_selection import (
    SegmentRequest,
    SelectedSegment,
    select_segments,
)
from turnlog.projections.testing import TENANT

few = settings(max_examples=choose_examples(12))

NAMES = ("s1", "s2", "s3")

VARIANTS = st.sampled_from("abc")

DEEDS = st.sampled_from(["say", "put", "edit", "edit", "switch"])

TEXTS = st.text("xy", min_size=1, max_size=2)

LORE = SegmentRequest("lore")

Said = tuple[int, str, str]
"""A version, its text and its variant."""

NOTHING: Said = (0, "", "")


@dataclass(kw_only=True)
class VariantSessions:
    """Sessions of several names that run the same turns on one segment library."""

    sessions: dict[str, TrackedSession]
    library: list[RecordedEvent] = field(default_factory=list[RecordedEvent])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    versions: dict[int, int] = field(default_factory=dict[int, int])
    seen: list[int] = field(default_factory=list[int])
    """The library sequence at each turn."""

    def add_segment(self, text: str, variant: str) -> None:
        number = len(self.versions) + 1
        self.versions[number] = 1
        segment_text = build_segment_text(self._store_text(text), 0)
        new = NewSegment(id=number, scope="lore", variant=variant, text=segment_text)
        self._apply_library_event(SegmentsAdded(segments=(new,)))

    def edit_segment(self, number: int, text: str, variant: str) -> None:
        self.versions[number] += 1
        segment_text = build_segment_text(self._store_text(text), 0)
        new = NewSegmentVersion(
            id=number, version=self.versions[number], variant=variant, text=segment_text
        )
        self._apply_library_event(SegmentsEdited(versions=(new,)))

    def switch_variant(self, number: int, variant: str | None, *, on: bool) -> None:
        kind = SegmentsActivated if on else SegmentsDeactivated
        self._apply_library_event(kind(segments=(number,), variant=variant))

    def run_turns(self) -> None:
        """Run the next turn in each session."""
        for name, led in self.sessions.items():
            led.gives = partial(self._select_segments, name)
            led.submit_turn("and?")
            led.answer_turn("so it is")
        self.seen.append(len(self.library))

    def map_given_versions(self, name: str, upto: int) -> dict[int, Said]:
        """Say which version of each segment a name is given."""
        library = fold(self.library[:upto], SegmentLibrary(tenant=TENANT))
        choices = select_segments(library, LORE, (), name).choices
        return {each.segment.id: self._describe_version(each.version) for each in choices}

    def get_variant_version(self, number: int, variant: str, upto: int) -> Said:
        """Say what a variant says, whether it is switched on or not."""
        library = fold(self.library[:upto], SegmentLibrary(tenant=TENANT))
        return self._describe_version(library.segments[number].latest_versions[variant])

    def _describe_version(self, version: SegmentVersion) -> Said:
        return version.version, self.texts[version.text.digest], version.variant

    def build_call_snapshot(self, name: str, turn: int) -> CallSnapshot:
        """Give a call, as one of a session of that name."""
        events = copy_to_session(self.sessions[name].session.events, name)
        return build_call_snapshot(build_complete_log(events), f"{turn}.1", self.library)

    def _select_segments(self, name: str, want: SegmentRequest) -> tuple[SelectedSegment, ...]:
        if want.scope != "lore":
            return ()
        library = fold(self.library, SegmentLibrary(tenant=TENANT))
        return tuple(
            SelectedSegment(each.build_source(), self.texts[each.version.text.digest])
            for each in select_segments(library, want, (), name).choices
        )

    def _store_text(self, text: str) -> str:
        self.texts[build_segment_text(text, 0).digest] = text
        return text

    def _apply_library_event(self, event: LibraryEvent) -> None:
        for led in self.sessions.values():
            led.record_library_event(event)
        self.library = next(iter(self.sessions.values())).library


@st.composite
def draw_sessions(draw: st.DrawFn) -> VariantSessions:
    """Draw changes of a library while sessions run."""
    made = VariantSessions(
        sessions={
            name: TrackedSession(blueprint=build_tracked_blueprint(layers=TRACKED_LAYERS))
            for name in NAMES
        }
    )
    made.add_segment("x", "a")
    for action in draw(st.lists(DEEDS, min_size=3, max_size=8)):
        apply_action(draw, made, action)
    made.run_turns()
    return made


def apply_action(draw: st.DrawFn, made: VariantSessions, action: str) -> None:
    number = draw(st.sampled_from(sorted(made.versions)))
    match action:
        case "say":
            made.run_turns()
        case "put":
            made.add_segment(draw(TEXTS), draw(VARIANTS))
        case "edit":
            made.edit_segment(number, draw(TEXTS), draw(VARIANTS))
        case _:
            made.switch_variant(number, draw(st.none() | VARIANTS), on=draw(st.booleans()))


def fill_inactive_versions(
    made: VariantSessions, number: int, given_versions: Sequence[Said | None]
) -> Sequence[Said | None]:
    """Fill in the last given variant's version while it is inactive."""
    found: list[Said | None] = []
    for upto, version in enumerate(given_versions):
        last = found[-1] if found else None
        found.append(version or (made.get_variant_version(number, last[2], upto) if last else None))
    return found


def compute_expected(
    made: VariantSessions, early: tuple[str, int], late: tuple[str, int]
) -> dict[str, DiffReasons]:
    """Return why each segment differs: another session name, or a later event."""
    (one, before), (other, after) = early, late
    was, now = made.map_given_versions(one, before), made.map_given_versions(other, after)
    found: dict[str, DiffReasons] = {}
    for number in {*was, *now}:
        if was.get(number, NOTHING)[1] == now.get(number, NOTHING)[1]:
            continue
        then = made.map_given_versions(other, before).get(number)
        reasons = (
            {("variant", 1)} if number in was and then != was[number] else set[tuple[str, int]]()
        )
        given_versions = [
            made.map_given_versions(other, upto).get(number) for upto in range(after + 1)
        ]
        both = None not in (given_versions[before], given_versions[after])
        versions = (
            fill_inactive_versions(made, number, given_versions)
            if both
            else [version is not None for version in given_versions]
        )
        steps = [n for n in range(before + 1, after + 1) if versions[n] != versions[n - 1]]
        reasons |= {("library", step) for step in steps[-1:]}
        found[str(number)] = frozenset(reasons)
    return found


@few
@given(draw_sessions(), st.data())
def test_segment_differences_are_attributed_to_the_session_name_and_library_edits(
    made: VariantSessions, data: st.DataObject
) -> None:
    turn = st.integers(1, len(made.seen))
    for _ in range(4):
        names = [data.draw(st.sampled_from(NAMES)) for _ in range(2)]
        turns = sorted((data.draw(turn), data.draw(turn)))
        early, late = zip(names, turns, strict=True)
        found = compare_calls(made.build_call_snapshot(*early), made.build_call_snapshot(*late))
        actual = {
            next(iterate_changed_things(each))[1]: extract_reasons(each)
            for each in found.changes
            if each.layer == "lore"
        }
        seen = [(name, made.seen[turn - 1]) for name, turn in (early, late)]
        assert actual == compute_expected(made, *seen)
