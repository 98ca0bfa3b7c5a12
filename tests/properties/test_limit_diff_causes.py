"""What limits and budgets left out of a prompt: each with what took its room."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.faults.suite_extent import choose_examples
from tests.properties.test_diff_causes import extract_reasons
from tests.support.generators.tracked_session import TrackedSession, build_tracked_blueprint
from turnlog.projections.audit.diff.call_diff import CallDiff, PromptChange, compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.record.partial_log import build_complete_log
from turnlog.projections.blueprint.schema.history_specs import MemoryPolicy

few = settings(max_examples=choose_examples(15))

LENGTHS = st.integers(1, 40)

ROOM: dict[str, JsonValue] = {
    "window": {
        "tokens": {"default": 60, "input": "room"},
        "counter": {"chars_per_token": 1},
        "ladder": [
            {"trim": {"layer": "mood", "chars": [9]}},
            {"drop_oldest_pairs": {"history": "recent"}},
        ],
    }
}

PLAIN: JsonValue = {
    "reply": {
        "messages": [{"system": ["mood"]}, {"history": "recent"}, {"user": ["input"]}],
        "budget": "window",
    }
}


def diff_calls(led: TrackedSession, before: str, after: str) -> CallDiff:
    events = led.session.events
    return compare_calls(
        build_call_snapshot(build_complete_log(events), before),
        build_call_snapshot(build_complete_log(events), after),
    )


def list_removed(found: CallDiff, rule: str) -> list[PromptChange]:
    return [each for each in found.changes if each.what == "removed" and each.rule == rule]


def collect_turns(changes: list[PromptChange]) -> set[int]:
    return {turn for each in changes for turn in range(each.first or 0, (each.last or 0) + 1)}


@few
@given(st.integers(1, 4), st.integers(2, 9), st.data())
def test_turn_over_the_limit_is_attributed_to_the_later_turns_that_displaced_it(
    most: int, talks: int, data: st.DataObject
) -> None:
    led = TrackedSession(blueprint=build_tracked_blueprint(history={"recent": {"max_turns": most}}))
    calls = [run_turn(led, f"text {n}", f"reply {n}") for n in range(talks)]
    before, after = sorted(data.draw(st.integers(0, talks - 1)) for _ in "ab")
    pushed = list_removed(diff_calls(led, calls[before], calls[after]), "max_turns")
    assert collect_turns(pushed) == {
        *range(max(1, before - most + 1), min(before, after - most) + 1)
    }
    for each in pushed:
        # Told together, since they went for one reason; each was pushed out by another one
        later_turns = {led.world.turns[turn + most].completed for turn in collect_turns([each])}
        assert extract_reasons(each) == {("limit", by) for by in later_turns}


@few
@given(st.integers(2, 5))
def test_excluded_turn_is_attributed_to_its_exclusion_not_to_the_limit(
    most: int,
) -> None:
    led = TrackedSession(blueprint=build_tracked_blueprint(history={"recent": {"max_turns": most}}))
    calls = [run_turn(led, f"text {n}", f"reply {n}") for n in range(most + 1)]
    led.toggle_exclusion(most + 1)
    led.toggle_exclusion(most)
    calls.append(run_turn(led, "again", "so it is"))
    found = diff_calls(led, calls[-2], calls[-1])
    back = [each for each in found.changes if each.what == "added" and each.rule == "max_turns"]
    assert not back
    one = next(each for each in found.changes if each.rule == "excluded")
    assert extract_reasons(one) == {("excluded", led.world.turns[most].marked)}


def run_turn(led: TrackedSession, text: str, reply: str, **inputs: JsonValue) -> str:
    call = led.submit_turn(text, **inputs)
    led.answer_turn(reply)
    return call


@few
@given(st.lists(LENGTHS, min_size=3, max_size=7), st.lists(LENGTHS, min_size=7, max_size=7))
def test_turn_that_does_not_fit_is_attributed_to_the_events_that_grew_the_prompt(
    question_lengths: list[int], reply_lengths: list[int]
) -> None:
    led = TrackedSession(blueprint=build_tracked_blueprint(calls=PLAIN, budget=ROOM))
    calls = [
        run_turn(led, "x" * length, "y" * reply_lengths[n])
        for n, length in enumerate(question_lengths)
    ]
    found = diff_calls(led, calls[-2], calls[-1])
    last = len(question_lengths)
    expected = {("room", led.world.turns[last - 1].completed or 0)}
    if question_lengths[-1] > question_lengths[-2]:
        expected.add(("room", led.world.asked[0]))
    dropped = list_removed(found, "drop_oldest_pairs")
    assert all(extract_reasons(each) == expected for each in dropped)
    assert collect_turns(dropped) == compute_fitting_turns(
        question_lengths, reply_lengths, last - 1
    ) - compute_fitting_turns(question_lengths, reply_lengths, last)


def compute_fitting_turns(
    question_lengths: list[int], reply_lengths: list[int], turn: int
) -> set[int]:
    """Compute plainly which turns fit beside the text of a turn."""
    remaining = 60 - question_lengths[turn - 1]
    found: set[int] = set()
    for before in range(turn - 1, 0, -1):
        remaining -= question_lengths[before - 1] + reply_lengths[before - 1]
        if remaining < 0:
            break
        found.add(before)
    return found


@few
@given(st.integers(20, 39))
def test_parts_cut_by_a_smaller_budget_are_attributed_to_the_turn_that_set_it(
    tokens: int,
) -> None:
    led = TrackedSession(blueprint=build_tracked_blueprint(calls=PLAIN, budget=ROOM))
    run_turn(led, "x" * 10, "y" * 10)
    before = run_turn(led, "x" * 20, "y", mood="m" * 20)
    after = run_turn(led, "x", "y", mood="m" * 20, room=tokens)
    found = diff_calls(led, before, after)
    events = led.session.events
    (submitted,) = [e.sequence for e in events if getattr(e.event, "inputs", {}).get("room")]
    mood = [each for each in found.changes if each.layer == "mood"]
    dropped = list_removed(found, "drop_oldest_pairs")
    assert [each.rule for each in mood] == ["trim 9"] * len(mood)
    for each in (*dropped, *mood):
        assert ("budget", submitted) in extract_reasons(each)
    assert dropped or mood


@few
@given(st.integers(3, 20), st.integers(2, 6))
def test_expired_turn_is_attributed_to_the_time_of_the_call(seconds: int, talks: int) -> None:
    policy = MemoryPolicy(enabled=True, max_turns=0, max_chars=0, ttl_seconds=seconds)
    led = TrackedSession(
        blueprint=build_tracked_blueprint(history={"recent": {"memory": "narrator"}}), memory=policy
    )
    calls = [run_turn(led, "text", "reply") for _ in range(talks)]
    found = diff_calls(led, calls[-2], calls[-1])
    fixed = [each.sequence for each in led.session.events if "assembled" in each.envelope.type]
    assert all(
        extract_reasons(each) == {("time", fixed[-1])} for each in list_removed(found, "expired")
    )
    # An event a second: a text is the first of the four of its turn, the call's clock its third
    ages = [4 * behind + 2 for behind in range(talks - 1, 0, -1)]
    before = {turn for turn, age in enumerate(ages, 1) if age - 4 <= seconds and turn < talks - 1}
    after = {turn for turn, age in enumerate(ages, 1) if age <= seconds}
    assert collect_turns(list_removed(found, "expired")) == before - after
