"""The diff of two sessions: each difference has the events of either that made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.faults.suite_extent import choose_examples
from tests.support.generators.tracked_session import (
    TRACKED_LAYERS,
    TrackedSession,
    build_tracked_blueprint,
)
from turnlog.events.envelope import RecordedEvent
from turnlog.projections.audit.diff.call_diff import PromptChange, compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.record.partial_log import build_complete_log

few = settings(max_examples=choose_examples(15))


def copy_to_session(events: Sequence[RecordedEvent], session: str = "s2") -> list[RecordedEvent]:
    """Give the events of a session as those of another one."""
    return [
        replace(
            each,
            envelope=each.envelope.model_copy(
                update={"subject": session, "id": f"{session}-{each.envelope.id}"}
            ),
        )
        for each in events
    ]


DIFFERENT = ("name", "persona", "greeting", "extra", "limit", "segment", "said")

REASON = {
    "persona": ("changed", "pinned"),
    "greeting": ("changed", "blueprint"),
    "extra": ("added", "blueprint"),
    "lore": ("changed", "library"),
    "history": ("removed", "blueprint"),
}


def build_session(different: set[str]) -> TrackedSession:
    """Build a session that differs in these properties."""
    layers: dict[str, JsonValue] = {**TRACKED_LAYERS}
    if "greeting" in different:
        layers["greeting"] = {"text": "Wait for {name}."}
    if "extra" in different:
        layers["extra"] = {"text": "And be brief."}
    recent: JsonValue = {"max_turns": 1} if "limit" in different else {}
    slots: JsonValue = [{"system": [*layers]}, {"history": "recent"}, {"user": ["input"]}]
    blueprint = build_tracked_blueprint(
        layers=layers, calls={"reply": {"messages": slots}}, history={"recent": recent}
    )
    persona = "Be strict." if "persona" in different else "Be kind."
    return TrackedSession(
        blueprint=blueprint, persona=persona, name="Bob" if "name" in different else "Ann"
    )


def run_session(different: set[str]) -> TrackedSession:
    session = build_session(different)
    session.add_segment(1, "The sea is near.")
    if "segment" in different:
        session.edit_segment(1, "The sea is far.")
    for n in range(3):
        session.submit_turn(f"text {n}")
        session.answer_turn(f"reply {n}, otherwise" if "said" in different and n else f"reply {n}")
    return session


def compute_expected(different: set[str]) -> dict[str, tuple[str, str]]:
    """Return the expected change and reason of each layer."""
    things = {"persona": "persona", "greeting": "greeting", "extra": "extra", "segment": "lore"}
    found = {things[each]: REASON[things[each]] for each in different & set(things)}
    if "name" in different:
        found["greeting"] = ("changed", "attribute")
    if "said" in different:
        found["history 2"] = ("changed", "answered")
    if "limit" in different:
        found["history 1"] = REASON["history"]
    return found


def map_changes(changes: Sequence[PromptChange]) -> dict[str, tuple[str, str]]:
    return {
        f"{each.layer} {each.first}" if each.first else each.layer: (
            each.what,
            " ".join(reason.what for reason in each.because),
        )
        for each in changes
    }


@few
@given(st.sets(st.sampled_from(DIFFERENT)))
def test_differences_of_two_sessions_are_attributed_to_events_of_both(different: set[str]) -> None:
    one, other = run_session(set()), run_session(different)
    edits = [*one.library, *other.library[1:]]
    left = build_call_snapshot(build_complete_log(one.session.events), "3.1", edits)
    right = build_call_snapshot(
        build_complete_log(copy_to_session(other.session.events)), "3.1", edits
    )
    found = compare_calls(left, right)
    assert map_changes(found.changes) == compute_expected(different)
    assert found.same == (not different)
    for change in found.changes:
        assert all(reason.by for reason in change.because)
        sessions = {by.session for reason in change.because for by in reason.by}
        assert sessions in ({"s1", "s2"}, {"segments"})
