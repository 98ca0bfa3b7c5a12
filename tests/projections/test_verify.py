"""Verifying a session: whatever is done to its record is found, and named by its event."""

from __future__ import annotations

import pytest

from tests.parts.windows import assembled, blobs_of, blueprint_of, opened_by
from turnlog.events.codec import read, write
from turnlog.events.content import Plain, digest_of
from turnlog.events.envelope import Head, Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.testing import draft
from turnlog.events.turn import TurnCompleted
from turnlog.projections.session.commands import FixContext
from turnlog.projections.testing import Given, answering, attempt_of, claiming, saying
from turnlog.projections.verify import Noted, Report, blobs_needed, unreadable, verify

FILES = {"persona": "You are a guide."}
BLOBS = blobs_of(FILES)
BLUEPRINT = blueprint_of(
    """
blueprint: guide
version: 1
layers:
  persona: {file: persona.md, keep: always}
calls:
  reply:
    messages:
      - system: [persona]
      - history: recent
      - user: [input]
history:
  recent: {}
profiles:
  chat: {default: true, call: reply}
"""
)


def told(session: Given, text: str, reply: str) -> Given:
    """Say something and have it answered, the prompt recorded as a worker does."""
    session = session.later(saying(text), claiming())
    found = assembled(session, BLUEPRINT, FILES)
    attempt = attempt_of(session.opened)
    fixed = FixContext(attempt, "openai/test", dict(found.request.parameters), found.manifest)
    return session.later(fixed, answering(reply))


SESSION = told(told(opened_by(BLUEPRINT, FILES), "Where am I?", "Here."), "And now?", "Still.")
EVENTS = SESSION.events
LAST = EVENTS[-1]


def checks(
    events: tuple[Recorded, ...], noted: Noted | None = None
) -> list[tuple[str, int | None]]:
    """Name what is found, and where."""
    return [(each.check, each.sequence) for each in verify(events, BLOBS, noted).findings]


def stored_as(event: Recorded, payload: bytes) -> Recorded:
    return read(payload, event.stream_sequence)


def test_a_sound_session_has_nothing_to_find() -> None:
    report = verify(EVENTS, BLOBS)
    assert report.sound
    assert (report.events, report.prompts, report.head) == (len(EVENTS), 2, LAST.head)
    assert blobs_needed(EVENTS) == tuple(BLOBS)


@pytest.mark.promise("P17")
@pytest.mark.parametrize("place", range(len(EVENTS) - 1))
def test_one_altered_byte_is_found_at_the_event_behind_it(place: int) -> None:
    event = EVENTS[place]
    altered = stored_as(event, event.stored.replace(b'"actor":"tester"', b'"actor":"nobody"'))
    found = checks((*EVENTS[:place], altered, *EVENTS[place + 1 :]))
    assert found == [("chain", EVENTS[place + 1].sequence)]


def test_an_altered_last_event_is_found_by_whoever_noted_it() -> None:
    altered = stored_as(LAST, LAST.stored.replace(b"Still.", b"Never."))
    events = (*EVENTS[:-1], altered)
    assert checks(events) == []
    noted = Noted(LAST.sequence, LAST.head.hash)
    assert checks(events, noted) == [("noted", LAST.sequence)]
    assert checks(EVENTS, noted) == []


@pytest.mark.promise("P17")
def test_a_missing_end_is_found_by_whoever_noted_it_and_by_nobody_else() -> None:
    assert checks(EVENTS[:-3]) == []
    noted = Noted(LAST.sequence, LAST.head.hash)
    assert checks(EVENTS[:-3], noted) == [("noted", LAST.sequence)]


@pytest.mark.parametrize("place", range(len(EVENTS) - 1))
def test_a_missing_event_is_found(place: int) -> None:
    found = checks((*EVENTS[:place], *EVENTS[place + 1 :]))
    assert found == [("sequence", EVENTS[place + 1].sequence)]


def test_an_event_that_is_there_twice_is_found() -> None:
    assert checks((*EVENTS[:3], EVENTS[2], *EVENTS[3:])) == [("sequence", 3)]


def test_an_event_of_another_session_is_found() -> None:
    event = EVENTS[2]
    moved = stored_as(event, event.stored.replace(b'"subject":"s1"', b'"subject":"s2"'))
    assert ("chain", 3) in checks((*EVENTS[:2], moved, *EVENTS[3:]))


def test_a_first_event_that_continues_another_is_found() -> None:
    batch = write("acme", "s1", Head(0, 7, digest_of("before")), [draft(EVENTS[0].event)])  # type: ignore[arg-type]
    first = read(batch.messages[0].payload, 8)
    assert checks((first,)) == [("chain", 1)]


def test_a_turn_that_is_answered_twice_is_found_with_a_chain_that_holds() -> None:
    again = TurnCompleted(turn=2, call="2.1", text=Plain(text="Or not."), finish="stop")
    twice = SESSION.recorded(again)
    report = verify(twice.events, BLOBS)
    (found,) = report.findings
    assert (found.check, found.sequence) == ("answers", len(EVENTS) + 1)
    assert found.detail == f"turn 2 was settled before, by event {LAST.sequence}"
    assert report.prompts == 2


@pytest.mark.parametrize("blobs", [{}, dict.fromkeys(BLOBS, "You are a thief.")])
def test_a_prompt_that_does_not_read_back_is_found_at_its_call(blobs: dict[str, str]) -> None:
    report = verify(EVENTS, blobs)
    assert [found.check for found in report.findings] == ["prompts", "prompts"]
    assert report.findings[0].detail.startswith("call 1.1: ")
    assert report.prompts == 0


def test_a_prompt_of_another_model_than_recorded_is_found() -> None:
    session = opened_by(BLUEPRINT, FILES).later(saying("Hi"), claiming())
    found = assembled(session, BLUEPRINT, FILES)
    attempt = attempt_of(session.opened)
    swapped = FixContext(attempt, "openai/other", {}, found.manifest)
    report = verify(session.later(swapped).events, BLOBS)
    assert [finding.check for finding in report.findings] == ["prompts"]


def test_no_prompt_counts_as_read_where_the_record_is_broken() -> None:
    broken = (*EVENTS[:2], *EVENTS[3:])
    assert verify(broken, BLOBS).prompts == 0


def test_a_session_that_cannot_be_read_is_a_finding_and_no_error() -> None:
    report = unreadable(Corrupt("event 3", "junk"))
    assert not report.sound
    assert report.head is None
    assert [found.detail for found in report.findings] == ["event 3: junk"]


def test_a_session_without_events_has_no_head() -> None:
    assert verify((), {}) == Report(None, 0, 0, ())
