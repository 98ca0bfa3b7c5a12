"""Every turn that a prompt does not show has the event that excluded it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generators.tracked_session import TrackedSession, build_tracked_blueprint
from turnlog.projections.audit.explain.turn_explanation import explain_call
from turnlog.projections.audit.record.partial_log import build_complete_log

few = settings(max_examples=30)


@few
@given(
    st.integers(1, 4),
    st.lists(st.sampled_from(["talk", "talk", "talk", "mark", "redact"]), max_size=14),
    st.data(),
)
def test_every_turn_that_is_not_as_it_was_said_has_the_event_that_did_it(
    most: int, deeds: list[str], data: st.DataObject
) -> None:
    led = TrackedSession(build_tracked_blueprint(history={"recent": {"max_turns": most}}))
    call = ""
    for deed in ("talk", *deeds, "talk"):
        if deed == "talk":
            call = led.submit_turn("text")
            led.answer_turn("reply")
        elif deed == "mark":
            led.toggle_exclusion(data.draw(st.sampled_from(sorted(led.world.turns))))
        else:
            led.redact_reply(data.draw(st.sampled_from(sorted(led.world.turns))), "(withheld)")
    runs = [
        gone
        for each in explain_call(build_complete_log(led.session.events), call).parts
        for gone in each.removed
    ]
    told = {
        turn: (gone.rule, gone.by.sequence)
        for gone in runs
        for turn in range(gone.first, gone.last + 1)
    }
    assert told == compute_exclusions(led, call, most)


def compute_exclusions(led: TrackedSession, call: str, most: int) -> dict[int, tuple[str, int]]:
    """Compute the exclusions of a call from the actions, latest turn first."""
    found: dict[int, tuple[str, int]] = {}
    behind: list[int] = []
    for turn, told in sorted(led.calls[call].turns.items(), reverse=True):
        since = told.marked if told.marked is not None else told.completed or 0
        if told.excluded:
            found[turn] = ("excluded", told.marked or 0)
            continue
        if len(behind) >= most:
            found[turn] = ("max_turns", sorted(behind)[most - 1])
        elif told.redacted:
            found[turn] = ("redacted", told.redacted)
        behind.append(since)
    return found
