"""The diff of two calls, compared with a generator that knows what happened between them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.faults.suite_extent import choose_examples
from tests.support.generators.expected_diff import DiffReasons, ExpectedDiff, derive_expected_diff
from tests.support.generators.tracked_session import (
    NPC_REFS,
    TrackedSession,
    build_tracked_blueprint,
)
from turnlog.events.model.manifest import SegmentSource
from turnlog.projections.audit.diff.call_diff import CallDiff, PromptChange, compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.record.partial_log import build_complete_log

pytestmark = pytest.mark.slow("many generated cases are tried")

few = settings(max_examples=choose_examples(12))
"""A session of a dozen actions, and every pair of its calls."""

WORDS = st.text("abc .", min_size=1, max_size=12)

BEHIND = st.sampled_from([(0, 0), (0, 0), (1, 0), (0, 1), (1, 1)])
"""How many turns are queued behind one before its prompt is recorded, and how many after."""

DEEDS = st.sampled_from(
    ["talk", "talk", "mark", "mark", "redact", "redact text", "edit", "switch", "wander", "put"]
)


@st.composite
def draw_session(draw: st.DrawFn) -> TrackedSession:
    led = TrackedSession(blueprint=build_tracked_blueprint())
    led.add_segment(1, "The sea is near.")
    led.add_segment(2, "She hums.", "npc.a", 0)
    led.add_segment(3, "She lies.", "npc.a", 2)
    run_turns(draw, led)
    for action in draw(st.lists(DEEDS, min_size=4, max_size=14)):
        apply_action(draw, led, action)
    run_turns(draw, led)
    return led


def apply_action(draw: st.DrawFn, led: TrackedSession, action: str) -> None:
    turns, numbers = sorted(led.world.turns), sorted(led.world.shelf)
    match action:
        case "talk":
            run_turns(draw, led)
        case "mark":
            led.toggle_exclusion(draw(st.sampled_from(turns)))
        case "redact":
            led.redact_reply(draw(st.sampled_from(turns)), f"(withheld {draw(WORDS)})")
        case "redact text":
            led.redact_text(draw(st.sampled_from(turns)), f"(took back {draw(WORDS)})")
        case "edit":
            led.edit_segment(draw(st.sampled_from(numbers)), draw(WORDS))
        case "switch":
            led.toggle_segment(draw(st.sampled_from(numbers)))
        case "put":
            ref = draw(st.none() | st.sampled_from(NPC_REFS))
            led.add_segment(len(numbers) + 1, draw(WORDS), ref, draw(st.integers(0, 2)))
        case _:
            led.choose_path(draw(st.sampled_from(["red", "blue"])))


def run_turns(draw: st.DrawFn, led: TrackedSession) -> None:
    """Submit a turn and queue others before or after its prompt is recorded; answer all."""
    early, late = draw(BEHIND)
    for _ in range(1 + early):
        submit_turn(draw, led)
    while led.waiting:
        led.start_turn()
        for _ in range(late):
            submit_turn(draw, led)
        late = 0
        led.answer_turn(f"re: {draw(WORDS)}")


def submit_turn(draw: st.DrawFn, led: TrackedSession) -> None:
    """Submit a turn with or without inputs."""
    inputs: dict[str, JsonValue] = {}
    if mood := draw(st.none() | WORDS):
        inputs["mood"] = mood
    if met := draw(st.lists(st.sampled_from(NPC_REFS), unique=True)):
        inputs["people"] = [{"npc": npc, "tier": draw(st.integers(0, 2))} for npc in sorted(met)]
    led.queue_turn(draw(WORDS), **inputs)


def diff_calls(led: TrackedSession, before: str, after: str) -> CallDiff:
    events = build_complete_log(led.session.events)
    return compare_calls(
        build_call_snapshot(events, before, led.library),
        build_call_snapshot(events, after, led.library),
    )


def map_expected(found: CallDiff) -> ExpectedDiff:
    """Bring a difference into the generator's words, turn by turn where no reasons are shared."""
    return {
        thing: (change.what, extract_reasons(change))
        for change in found.changes
        for thing in iterate_changed_things(change)
    }


def extract_reasons(change: PromptChange) -> DiffReasons:
    return frozenset((each.what, by.sequence) for each in change.because for by in each.by)


def iterate_changed_things(change: PromptChange) -> Iterator[tuple[str, ...]]:
    """Name what changed: a turn, a layer, or a layer and a segment in it."""
    if change.first is not None and change.last is not None:
        yield from (("turn", str(turn)) for turn in range(change.first, change.last + 1))
        return
    part = change.after or change.before
    assert part
    source = part.source
    number = [str(source.segment)] if isinstance(source, SegmentSource) else []
    yield (change.layer, *number)


def merge_shared_reasons(expected: ExpectedDiff, found: CallDiff) -> ExpectedDiff:
    """Share the reasons of turns that came, went or changed together."""
    shared = dict(expected)
    for change in found.changes:
        things = [
            thing
            for thing in iterate_changed_things(change)
            if thing[0] == "turn" and thing in expected
        ]
        every = frozenset(reason for thing in things for reason in expected[thing][1])
        shared |= {thing: (expected[thing][0], every) for thing in things}
    return shared


@few
@given(draw_session(), st.data())
def test_every_difference_of_two_calls_has_the_cause_that_the_generator_recorded(
    led: TrackedSession, data: st.DataObject
) -> None:
    calls = sorted(led.calls, key=lambda call: int(call.split(".")[0]))
    for before in data.draw(st.lists(st.sampled_from(calls), min_size=1, max_size=3)):
        after = data.draw(st.sampled_from(calls))
        found = diff_calls(led, before, after)
        expected = derive_expected_diff(led, before, after)
        assert map_expected(found) == merge_shared_reasons(expected, found)
        assert found.same == (not found.changes)


@few
@given(draw_session())
def test_common_prefix_of_two_prompts_equals_the_recorded_cache_prefix(led: TrackedSession) -> None:
    calls = sorted(led.calls, key=lambda call: int(call.split(".")[0]))
    for before, after in pairwise(calls):
        found, recorded = (
            diff_calls(led, before, after),
            build_call_snapshot(build_complete_log(led.session.events), after),
        )
        prefix = recorded.manifest.prefix
        assert prefix
        assert (found.prefix.messages, found.prefix.tokens) == (prefix.messages, prefix.tokens)
        ended_by = found.prefix.change
        assert (ended_by is None) == (prefix.ended_by is None)
        assert ended_by is None or found.changes[ended_by].layer == found.prefix.ended_by
