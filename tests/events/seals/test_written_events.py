"""What a process keeps of the events that it has sealed: how many, and until when."""

from __future__ import annotations

import pytest

from turnlog.events.seals.sealed_payload import SealedPayload
from turnlog.events.seals.written_events import (
    MAX_WRITTEN_BYTES,
    MAX_WRITTEN_EVENTS,
    WrittenEvents,
)


def build_payload(name: str, size: int = 1) -> SealedPayload:
    return SealedPayload(name.encode(), bytes(32), opened=b"x" * size)


def find_all(written: WrittenEvents, *names: str) -> list[str]:
    return [name for name in names if written.find_event(name.encode())]


@pytest.mark.parametrize(
    ("session", "left"),
    [
        ("s1", ["other tenant", "longer", "shorter"]),
        ("s2", ["own", "other tenant", "longer", "shorter"]),
        ("none", ["own", "child", "other tenant", "longer", "shorter"]),
    ],
)
def test_events_under_leaves_of_a_session_are_dropped_wherever_they_are(
    session: str, left: list[str]
) -> None:
    written = WrittenEvents()
    for name, tenant, leaves in (
        ("own", "t", "s1:4,7-9"),
        ("child", "t", "s0:1;s1:4;s2:0"),
        ("other tenant", "u", "s1:4"),
        ("longer", "t", "xs1:4;s11:3"),
        ("shorter", "t", "s:1"),
    ):
        written.add_event(tenant, leaves, build_payload(name))
    written.forget_session("t", session)
    names = ("own", "child", "other tenant", "longer", "shorter")
    assert find_all(written, *names) == left
    written.forget_all()
    assert find_all(written, *names) == []


def test_number_and_bytes_of_what_is_kept_are_bounded() -> None:
    written = WrittenEvents()
    names = [f"event {number}" for number in range(MAX_WRITTEN_EVENTS + 3)]
    for name in names:
        written.add_event("t", "s:1", build_payload(name))
    assert find_all(written, *names) == names[3:]
    for name in ("large", "larger"):
        written.add_event("t", "s:1", build_payload(name, MAX_WRITTEN_BYTES - 6))
        assert find_all(written, *names, "large", "larger") == [name]
        written.add_event("t", "s:1", build_payload(name, MAX_WRITTEN_BYTES - 6))
        assert find_all(written, *names, "large", "larger") == [name]
    written.add_event("t", "s:1", build_payload("too large", MAX_WRITTEN_BYTES))
    assert find_all(written, "larger", "too large") == []
