"""The diff of a fork and its origin: the events of either after the fork."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.suite_extent import choose_examples
from tests.support.generators.tracked_session import (
    TrackedSession,
    TrackedTurn,
    build_tracked_blueprint,
)
from turnlog.events.envelope import RecordedEvent
from turnlog.projections.audit.diff.call_diff import CallDiff, PromptChange, compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.record.partial_log import build_complete_log

few = settings(max_examples=choose_examples(12))

WORDS = st.text("ab", min_size=1, max_size=3)

DEEDS = st.lists(
    st.sampled_from(["talk", "mark", "redact", "redact", "redact text", "wander"]), max_size=4
)

Found = tuple[str, str, int]
"""What happened, in which session, and the sequence of its event."""

Why = frozenset[Found]


def build_fork_events(events: Sequence[RecordedEvent], at: int) -> list[RecordedEvent]:
    """Give the events of a fork: copies up to a place, and its own behind it."""
    return [
        replace(
            each,
            envelope=each.envelope.model_copy(
                update={"subject": "fork", "id": f"fork-{each.envelope.id}"}
                | ({"copyof": each.envelope.id} if each.sequence <= at else {})
            ),
        )
        for each in events
    ]


def apply_actions(draw: st.DrawFn, led: TrackedSession, actions: Sequence[str]) -> None:
    for action in actions:
        turns = sorted(led.world.turns)
        match action:
            case "talk":
                run_turn(draw, led)
            case "mark":
                led.toggle_exclusion(draw(st.sampled_from(turns)))
            case "redact":
                led.redact_reply(draw(st.sampled_from(turns)), f"({draw(WORDS)})")
            case "redact text":
                led.redact_text(draw(st.sampled_from(turns)), f"({draw(WORDS)})")
            case _:
                led.choose_path(draw(st.sampled_from(["red", "blue"])))


def run_turn(draw: st.DrawFn, led: TrackedSession) -> str:
    call = led.submit_turn(draw(WORDS))
    led.answer_turn(f"re: {draw(WORDS)}")
    return call


@st.composite
def draw_fork(draw: st.DrawFn) -> tuple[TrackedSession, TrackedSession, int]:
    """Draw a session and a fork of it that both continued, and the sequence of the fork."""
    origin = TrackedSession(blueprint=build_tracked_blueprint())
    run_turn(draw, origin)
    apply_actions(draw, origin, draw(DEEDS))
    fork, at = deepcopy(origin), origin.last_sequence
    for each in (origin, fork):
        run_turn(draw, each)
        apply_actions(draw, each, draw(DEEDS))
        run_turn(draw, each)
    return origin, fork, at


def compute_expected(
    origin: TrackedSession, fork: TrackedSession, at: int
) -> dict[str, tuple[str, Why]]:
    """Return the expected differences between the last calls of both."""
    was, now = (each.calls[max(each.calls, key=parse_turn_number)] for each in (origin, fork))
    found: dict[str, tuple[str, set[Found]]] = {}
    for turn in {*was.turns, *now.turns}:
        origin_turn, fork_turn = was.turns.get(turn), now.turns.get(turn)
        was_included, is_included = (
            bool(each and not each.excluded) for each in (origin_turn, fork_turn)
        )
        causes = {
            *iterate_turn_reasons("s1", origin_turn, fork_turn),
            *iterate_turn_reasons("fork", fork_turn, origin_turn),
        }
        if was_included != is_included:
            found[f"turn {turn}"] = ("added" if is_included else "removed", causes)
        elif (
            origin_turn
            and fork_turn
            and is_included
            and get_texts(origin_turn) != get_texts(fork_turn)
        ):
            found[f"turn {turn}"] = ("changed", causes)
    if was.text != now.text:
        reasons: set[Found] = {("said", "s1", was.asked[0]), ("said", "fork", now.asked[0])}
        found["input"] = ("changed", reasons)
    if was.phase[0] != now.phase[0]:
        entered: set[Found] = {("phase", "s1", was.phase[1]), ("phase", "fork", now.phase[1])}
        found["where"] = ("changed", entered)
    return {
        thing: (what, frozenset(each for each in causes if each[2] > at))
        for thing, (what, causes) in found.items()
    }


def iterate_turn_reasons(
    session: str, mine: TrackedTurn | None, other: TrackedTurn | None
) -> Iterator[Found]:
    """Iterate over the reasons of one session's turn that the other one does not share."""
    if mine is None:
        return
    if mine.excluded:
        yield "excluded", session, mine.marked or 0
        return
    replied = "redacted" if mine.redacted else "answered"
    replied_by = mine.redacted or mine.completed or 0
    if other is None:
        since = "restored" if mine.marked else "answered"
        yield since, session, mine.marked or mine.completed or 0
        yield from ((replied, session, replied_by),) if mine.redacted else ()
        yield from (("redacted", session, text),) if (text := mine.text_redacted) else ()
    elif other.excluded:
        yield from (("restored", session, mine.marked),) if mine.marked else ()
        if mine.text_redacted and not other.text_redacted:
            yield "redacted", session, mine.text_redacted
        yield from ((replied, session, replied_by),) if mine.redacted and not other.redacted else ()
    else:
        if mine.text != other.text and mine.text_redacted:
            yield "redacted", session, mine.text_redacted
        elif mine.text != other.text and not other.text_redacted:
            yield "said", session, mine.asked
        if mine.reply != other.reply and (mine.redacted or not other.redacted):
            yield replied, session, replied_by


def parse_turn_number(call: str) -> int:
    return int(call.partition(".")[0])


def get_texts(turn: TrackedTurn) -> tuple[str, str]:
    return turn.text, turn.reply


def list_changed_things(change: PromptChange) -> list[str]:
    if change.first is None or change.last is None:
        return [change.layer]
    return [f"turn {turn}" for turn in range(change.first, change.last + 1)]


def map_found(found: CallDiff) -> dict[str, tuple[str, Why]]:
    return {
        thing: (
            change.what,
            frozenset(
                (cause.what, by.session, by.sequence) for cause in change.because for by in cause.by
            ),
        )
        for change in found.changes
        for thing in list_changed_things(change)
    }


def merge_shared_reasons(
    expected: dict[str, tuple[str, Why]], found: CallDiff
) -> dict[str, tuple[str, Why]]:
    """Share the reasons of turns that came, went or changed together."""
    shared = dict(expected)
    for change in found.changes:
        things = [thing for thing in list_changed_things(change) if thing in expected]
        every = frozenset(reason for thing in things for reason in expected[thing][1])
        shared |= {thing: (expected[thing][0], every) for thing in things}
    return shared


@few
@given(draw_fork())
def test_differences_of_a_fork_are_caused_by_events_after_the_fork(
    drawn: tuple[TrackedSession, TrackedSession, int],
) -> None:
    origin, fork, at = drawn
    left, right = (max(each.calls, key=parse_turn_number) for each in (origin, fork))
    events = build_fork_events(fork.session.events, at)
    found = compare_calls(
        build_call_snapshot(build_complete_log(origin.session.events), left),
        build_call_snapshot(build_complete_log(events), right),
    )
    expected = compute_expected(origin, fork, at)
    actual = {
        thing: reasons
        for thing, reasons in map_found(found).items()
        if thing not in ("path", "note", "text_note")
    }
    assert actual == merge_shared_reasons(expected, found)
