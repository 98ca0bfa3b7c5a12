"""The diff of segments with variants: by session name, and by library changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parts.expected import Reasons
from tests.parts.led import LAYERS, Led, led_by, written
from tests.properties.test_causes import of, reasons
from tests.properties.test_causes_of_two import elsewhere
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

few = settings(max_examples=25)
NAMES = ("s1", "s2", "s3")
VARIANTS = st.sampled_from("abc")
DEEDS = st.sampled_from(["say", "put", "edit", "edit", "switch"])
TEXTS = st.text("xy", min_size=1, max_size=2)
LORE = SegmentRequest("lore")
Said = tuple[int, str, str]
"""A version, its text and its variant."""
NOTHING: Said = (0, "", "")


@dataclass
class Drawn:
    """Sessions of several names that run the same turns on one segment library."""

    sessions: dict[str, Led]
    library: list[RecordedEvent] = field(default_factory=list[RecordedEvent])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    versions: dict[int, int] = field(default_factory=dict[int, int])
    seen: list[int] = field(default_factory=list[int])
    """The library sequence at each turn."""

    def put(self, text: str, variant: str) -> None:
        number = len(self.versions) + 1
        self.versions[number] = 1
        said = written(self._kept(text), 0)
        new = NewSegment(id=number, scope="lore", variant=variant, text=said)
        self._edited(SegmentsAdded(segments=(new,)))

    def edit(self, number: int, text: str, variant: str) -> None:
        self.versions[number] += 1
        said = written(self._kept(text), 0)
        new = NewSegmentVersion(
            id=number, version=self.versions[number], variant=variant, text=said
        )
        self._edited(SegmentsEdited(versions=(new,)))

    def switch(self, number: int, variant: str | None, *, on: bool) -> None:
        kind = SegmentsActivated if on else SegmentsDeactivated
        self._edited(kind(segments=(number,), variant=variant))

    def say(self) -> None:
        """Run the next turn in each session."""
        for name, led in self.sessions.items():
            led.gives = partial(self._gives, name)
            led.submit("and?")
            led.answer("so it is")
        self.seen.append(len(self.library))

    def given(self, name: str, upto: int) -> dict[int, Said]:
        """Say which version of each segment a name is given."""
        shelf = fold(self.library[:upto], SegmentLibrary(TENANT))
        choices = select_segments(shelf, LORE, (), name).choices
        return {each.segment.id: self._said(each.version) for each in choices}

    def says(self, number: int, variant: str, upto: int) -> Said:
        """Say what a variant says, whether it is switched on or not."""
        shelf = fold(self.library[:upto], SegmentLibrary(TENANT))
        return self._said(shelf.segments[number].latest_versions[variant])

    def _said(self, version: SegmentVersion) -> Said:
        return version.version, self.texts[version.text.digest], version.variant

    def side(self, name: str, turn: int) -> CallSnapshot:
        """Give a call, as one of a session of that name."""
        events = elsewhere(self.sessions[name].session.events, name)
        return build_call_snapshot(build_complete_log(events), f"{turn}.1", self.library)

    def _gives(self, name: str, want: SegmentRequest) -> tuple[SelectedSegment, ...]:
        if want.scope != "lore":
            return ()
        shelf = fold(self.library, SegmentLibrary(TENANT))
        return tuple(
            SelectedSegment(
                each.segment.id, "lore", None, None, each.version.version, each.version.variant,
                0, "", "normal", each.version.text.digest, self.texts[each.version.text.digest],
            )
            for each in select_segments(shelf, want, (), name).choices
        )  # fmt: skip

    def _kept(self, text: str) -> str:
        self.texts[written(text, 0).digest] = text
        return text

    def _edited(self, event: LibraryEvent) -> None:
        for led in self.sessions.values():
            led.edited(event)
        self.library = next(iter(self.sessions.values())).library


@st.composite
def led(draw: st.DrawFn) -> Drawn:
    """Draw changes of a library while sessions run."""
    made = Drawn({name: Led(led_by(layers=LAYERS)) for name in NAMES})
    made.put("x", "a")
    for deed in draw(st.lists(DEEDS, min_size=3, max_size=8)):
        done(draw, made, deed)
    made.say()
    return made


def done(draw: st.DrawFn, made: Drawn, deed: str) -> None:
    number = draw(st.sampled_from(sorted(made.versions)))
    match deed:
        case "say":
            made.say()
        case "put":
            made.put(draw(TEXTS), draw(VARIANTS))
        case "edit":
            made.edit(number, draw(TEXTS), draw(VARIANTS))
        case _:
            made.switch(number, draw(st.none() | VARIANTS), on=draw(st.booleans()))


def saying(made: Drawn, number: int, gave: Sequence[Said | None]) -> Sequence[Said | None]:
    """Fill in the last given variant's version while it is inactive."""
    found: list[Said | None] = []
    for upto, said in enumerate(gave):
        last = found[-1] if found else None
        found.append(said or (made.says(number, last[2], upto) if last else None))
    return found


def expected(made: Drawn, early: tuple[str, int], late: tuple[str, int]) -> dict[str, Reasons]:
    """Return why each segment differs: another session name, or a later event."""
    (one, before), (other, after) = early, late
    was, now = made.given(one, before), made.given(other, after)
    found: dict[str, Reasons] = {}
    for number in {*was, *now}:
        if was.get(number, NOTHING)[1] == now.get(number, NOTHING)[1]:
            continue
        then = made.given(other, before).get(number)
        why = {("variant", 1)} if number in was and then != was[number] else set[tuple[str, int]]()
        gave = [made.given(other, upto).get(number) for upto in range(after + 1)]
        both = None not in (gave[before], gave[after])
        told = saying(made, number, gave) if both else [said is not None for said in gave]
        steps = [n for n in range(before + 1, after + 1) if told[n] != told[n - 1]]
        why |= {("library", step) for step in steps[-1:]}
        found[str(number)] = frozenset(why)
    return found


@few
@given(led(), st.data())
def test_a_segment_differs_by_the_name_that_drew_it_and_by_what_was_done_to_it(
    made: Drawn, data: st.DataObject
) -> None:
    turn = st.integers(1, len(made.seen))
    for _ in range(4):
        names = [data.draw(st.sampled_from(NAMES)) for _ in range(2)]
        turns = sorted((data.draw(turn), data.draw(turn)))
        early, late = zip(names, turns, strict=True)
        found = compare_calls(made.side(*early), made.side(*late))
        told = {next(of(each))[1]: reasons(each) for each in found.changes if each.layer == "lore"}
        seen = [(name, made.seen[turn - 1]) for name, turn in (early, late)]
        assert told == expected(made, *seen)
