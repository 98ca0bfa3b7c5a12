"""The diff after a blueprint upgrade: each difference has the upgrade that made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.faults.suite_extent import choose_examples
from tests.properties.test_diff_causes import map_expected, merge_shared_reasons
from tests.support.generators.expected_diff import DiffReasons, ExpectedDiff
from tests.support.generators.tracked_session import (
    TRACKED_LAYERS,
    TrackedSession,
    TrackedTurn,
    build_tracked_blueprint,
)
from turnlog.projections.audit.diff.call_diff import compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.record.partial_log import build_complete_log
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint

few = settings(max_examples=choose_examples(12))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlueprintVersion:
    """The properties of a blueprint version that differ in this test."""

    greeting: str = "You serve {name}."
    extra: bool = False
    limit: int | None = None
    persona: str = "Be kind."
    name: str = "Ann"

    @property
    def blueprint(self) -> Blueprint:
        layers: dict[str, JsonValue] = {**TRACKED_LAYERS, "greeting": {"text": self.greeting}}
        if self.extra:
            layers["extra"] = {"text": "And be brief."}
        recent: JsonValue = {"max_turns": self.limit} if self.limit else {}
        slots: JsonValue = [{"system": [*layers]}, {"history": "recent"}, {"user": ["input"]}]
        return build_tracked_blueprint(
            layers=layers, calls={"reply": {"messages": slots}}, history={"recent": recent}
        )


VERSIONS = st.builds(
    BlueprintVersion,
    greeting=st.sampled_from(["You serve {name}.", "Wait for {name}."]),
    extra=st.booleans(),
    limit=st.sampled_from([None, 1, 2, 3]),
    persona=st.sampled_from(["Be kind.", "Be strict."]),
    name=st.sampled_from(["Ann", "Bob"]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call and the session's properties at that time."""

    call: str
    made: BlueprintVersion
    moves: tuple[int, ...]
    renamed: int
    """The sequence of the event that set the name."""
    pinned: int
    fixed: int
    """The sequence of the last event in the prompt."""
    turns: Mapping[int, TrackedTurn]

    @property
    def list_usable_turns(self) -> list[int]:
        return [turn for turn, tracked in self.turns.items() if not tracked.excluded]

    @property
    def list_shown_turns(self) -> list[int]:
        """Return the included turns in order."""
        return (
            self.list_usable_turns[-self.made.limit :]
            if self.made.limit
            else self.list_usable_turns
        )

    @property
    def get_turn_limit(self) -> int | None:
        """Return the turn limit where it applies."""
        return self.made.limit if len(self.list_usable_turns) > len(self.list_shown_turns) else None


@dataclass(kw_only=True)
class UpgradedSession:
    """A session that is upgraded now and then."""

    led: TrackedSession
    made: BlueprintVersion
    moves: tuple[int, ...] = ()
    renamed: int = 1
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])

    def run_turn(self) -> None:
        call = self.led.submit_turn("and?")
        now = self.led.calls[call]
        self.calls.append(
            RecordedCall(
                call=call,
                made=self.made,
                moves=self.moves,
                renamed=self.renamed,
                pinned=now.pinned,
                fixed=now.fixed,
                turns=now.turns,
            )
        )
        self.led.answer_turn("so it is")

    def upgrade_blueprint(self, made: BlueprintVersion) -> None:
        self.led.upgrade_blueprint(made.blueprint, made.persona, made.name)
        self.moves = (*self.moves, self.led.last_sequence)
        self.renamed = self.led.last_sequence if made.name != self.made.name else self.renamed
        self.made = made


@st.composite
def draw_session(draw: st.DrawFn) -> UpgradedSession:
    made = draw(VERSIONS)
    moved = UpgradedSession(
        led=TrackedSession(blueprint=made.blueprint, persona=made.persona, name=made.name),
        made=made,
    )
    moved.run_turn()
    for action in draw(
        st.lists(st.sampled_from(["talk", "talk", "move", "mark"]), min_size=3, max_size=9)
    ):
        match action:
            case "talk":
                moved.run_turn()
            case "move":
                moved.upgrade_blueprint(draw(VERSIONS))
            case _:
                moved.led.toggle_exclusion(draw(st.sampled_from(sorted(moved.led.world.turns))))
    moved.run_turn()
    return moved


def iterate_expected(
    was: RecordedCall, now: RecordedCall
) -> Iterator[tuple[tuple[str, ...], tuple[str, DiffReasons]]]:
    """Iterate over the expected differences of two calls that an upgrade is part of."""
    moves = frozenset(("blueprint", at) for at in now.moves if at not in was.moves)
    if was.made.name != now.made.name:
        yield ("greeting",), ("changed", frozenset({("attribute", now.renamed)}))
    elif was.made.greeting != now.made.greeting:
        yield ("greeting",), ("changed", moves)
    if was.made.extra != now.made.extra:
        yield ("extra",), ("added" if now.made.extra else "removed", moves)
    if was.made.persona != now.made.persona:
        yield ("persona",), ("changed", frozenset({("pinned", now.pinned)}))
    for turn in now.turns:
        thing, was_included, is_included = (
            ("turn", str(turn)),
            turn in was.list_shown_turns,
            turn in now.list_shown_turns,
        )
        tracked = now.turns[turn]
        since = (
            ("restored", tracked.marked) if tracked.marked else ("answered", tracked.completed or 0)
        )
        if was_included and not is_included:
            out = frozenset({("excluded", tracked.marked or 0)})
            yield (
                thing,
                ("removed", out if tracked.excluded else explain_limit(turn, now, was, moves)),
            )
        elif is_included and not was_included:
            over_then = turn in was.list_usable_turns
            yield (
                thing,
                (
                    "added",
                    explain_limit(turn, was, now, moves) if over_then else frozenset({since}),
                ),
            )


def explain_limit(
    turn: int, own_call: RecordedCall, other_call: RecordedCall, moves: DiffReasons
) -> DiffReasons:
    """Return why a turn is over the limit here and not there: newer turns, or the limit."""
    behind = [each for each in own_call.list_usable_turns if each > turn]
    new = [each for each in behind if each not in other_call.list_usable_turns]
    limit_causes = frozenset(
        ("limit", find_deciding_event(each, own_call, other_call)) for each in new
    )
    limit = own_call.get_turn_limit or 0
    if own_call.made.blueprint == other_call.made.blueprint:
        by = sorted(
            own_call.turns[each].marked or own_call.turns[each].completed or 0 for each in behind
        )
        pushed = by[limit - 1]
        return limit_causes if pushed <= other_call.fixed else frozenset({("limit", pushed)})
    by_itself = len(behind) - len(new) >= limit
    let_it_stand = other_call.get_turn_limit is None or len(behind) < other_call.get_turn_limit
    if by_itself and let_it_stand:
        return moves
    return limit_causes | moves if by_itself or let_it_stand else limit_causes


def find_deciding_event(turn: int, own_call: RecordedCall, other_call: RecordedCall) -> int:
    """Return the event that included a turn here, or that excluded it there."""
    tracked, other = own_call.turns[turn], other_call.turns.get(turn)
    here_by = tracked.marked or tracked.completed or 0
    if other and other.marked and other.marked > here_by:
        return other.marked
    return here_by


@few
@given(draw_session(), st.data())
def test_differences_after_a_blueprint_move_are_attributed_to_the_move(
    moved: UpgradedSession, data: st.DataObject
) -> None:
    places = st.integers(0, len(moved.calls) - 1)
    for drawn in ([0, len(moved.calls) - 1], [data.draw(places), data.draw(places)]):
        was, now = (moved.calls[place] for place in sorted(drawn))
        assert assert_explained(moved, was, now)


def assert_explained(moved: UpgradedSession, was: RecordedCall, now: RecordedCall) -> bool:
    """Compare the reported difference with the generated one."""
    events = moved.led.session.events
    found = compare_calls(
        build_call_snapshot(build_complete_log(events), was.call),
        build_call_snapshot(build_complete_log(events), now.call),
    )
    expected: ExpectedDiff = dict(iterate_expected(was, now))
    beside = {("opening",), ("where",), ("path",), ("input",), ("note",)}
    actual = {
        thing: reasons for thing, reasons in map_expected(found).items() if thing not in beside
    }
    return actual == merge_shared_reasons(expected, found)
