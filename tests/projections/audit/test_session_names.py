"""A session may have any name, that of a library family included."""

from __future__ import annotations

from dataclasses import replace

from tests.support.generators.tracked_session import TrackedSession, build_tracked_blueprint
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.projections.audit.diff.call_diff import compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.record.partial_log import build_complete_log

Told = list[tuple[str, list[tuple[str, list[tuple[int, str]]]]]]


def test_session_named_like_the_library_has_the_same_diff_causes_as_any_other() -> None:
    assert compare_two_calls("s") == compare_two_calls(SEGMENT_FAMILY)


def compare_two_calls(name: str) -> Told:
    """Return the difference of two calls of a session with that name."""
    led = TrackedSession(blueprint=build_tracked_blueprint())
    led.submit_turn("Hi.")
    led.answer_turn("Hello.")
    led.redact_reply(1, "(withheld)")
    first = led.submit_turn("And?")
    led.answer_turn("So it is.")
    last = led.submit_turn("And then?")
    events = [
        replace(each, envelope=each.envelope.model_copy(update={"subject": name}))
        for each in led.session.events
    ]
    sides = [
        build_call_snapshot(build_complete_log(events), call, led.library) for call in (first, last)
    ]
    return [
        (
            change.layer,
            [
                (reason.what, [(by.sequence, by.event) for by in reason.by])
                for reason in change.because
            ],
        )
        for change in compare_calls(*sides).changes
    ]
