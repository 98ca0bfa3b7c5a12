"""Every turn that a prompt does not show has the event that excluded it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parts.led import Led, led_by
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
    led = Led(led_by(history={"recent": {"max_turns": most}}))
    call = ""
    for deed in ("talk", *deeds, "talk"):
        if deed == "talk":
            call = led.submit("text")
            led.answer("reply")
        elif deed == "mark":
            led.mark(data.draw(st.sampled_from(sorted(led.world.turns))))
        else:
            led.redact(data.draw(st.sampled_from(sorted(led.world.turns))), "(withheld)")
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
    assert told == plainly(led, call, most)


def plainly(led: Led, call: str, most: int) -> dict[int, tuple[str, int]]:
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
