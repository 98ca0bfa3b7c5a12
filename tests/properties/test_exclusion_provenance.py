"""Every turn that a prompt does not show has the event that excluded it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.suite_extent import choose_examples
from tests.support.generators.tracked_session import TrackedSession, build_tracked_blueprint
from turnlog.projections.audit.explain.turn_explanation import explain_call
from turnlog.projections.audit.record.partial_log import build_complete_log

few = settings(max_examples=choose_examples(15))


@few
@given(
    st.integers(1, 4),
    st.lists(
        st.sampled_from(["talk", "talk", "talk", "mark", "redact", "redact text"]), max_size=14
    ),
    st.data(),
)
def test_every_excluded_turn_has_the_event_that_excluded_it(
    most: int, actions: list[str], data: st.DataObject
) -> None:
    led = TrackedSession(blueprint=build_tracked_blueprint(history={"recent": {"max_turns": most}}))
    call = ""
    for action in ("talk", *actions, "talk"):
        if action == "talk":
            call = led.submit_turn("text")
            led.answer_turn("reply")
        elif action == "mark":
            led.toggle_exclusion(data.draw(st.sampled_from(sorted(led.world.turns))))
        elif action == "redact text":
            led.redact_text(data.draw(st.sampled_from(sorted(led.world.turns))), "(took back)")
        else:
            led.redact_reply(data.draw(st.sampled_from(sorted(led.world.turns))), "(withheld)")
    runs = [
        exclusion
        for each in explain_call(build_complete_log(led.session.events), call).parts
        for exclusion in each.removed
    ]
    exclusions = {
        turn: (exclusion.rule, exclusion.by.sequence)
        for exclusion in runs
        for turn in range(exclusion.first, exclusion.last + 1)
    }
    assert exclusions == compute_exclusions(led, call, most)


def compute_exclusions(led: TrackedSession, call: str, most: int) -> dict[int, tuple[str, int]]:
    """Compute the exclusions of a call from the actions, latest turn first."""
    found: dict[int, tuple[str, int]] = {}
    behind: list[int] = []
    for turn, tracked in sorted(led.calls[call].turns.items(), reverse=True):
        since = tracked.marked if tracked.marked is not None else tracked.completed or 0
        if tracked.excluded:
            found[turn] = ("excluded", tracked.marked or 0)
            continue
        if len(behind) >= most:
            found[turn] = ("max_turns", sorted(behind)[most - 1])
        elif redacted := tracked.redacted or tracked.text_redacted:
            found[turn] = ("redacted", redacted)
        behind.append(since)
    return found
