from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.sessions.prompt_assembly import (
    assemble_next_prompt,
    build_blobs,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.content import Content, PlainText, SealedText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.manifest import EventTextSource, Manifest
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.projections.audit.record.prompt_readback import list_referenced_blobs as blobs_named
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.session.commands import ExcludeTurn
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.testing import build_exchange, submit_turn

BLUEPRINT = parse_blueprint("""\
blueprint: guide
version: 1
attributes: {player: {type: map}}
layers:
  persona: {file: persona.md}
  city: {text: "The city is Vilnius."}
  player: {attribute: player}
calls:
  reply:
    messages: [{system: [persona, city, player]}, {history: recent}, {user: [input]}]
history: {recent: {}}
profiles: {chat: {default: true, call: reply}}
""")

FILES = {"persona": "You are a guide."}

BLOBS = build_blobs(FILES)

TALKED = open_with_blueprint(
    BLUEPRINT, FILES, player={"text": "not content", "name": "Ada"}
).apply_steps(
    *build_exchange("Hi", "Hello"), *build_exchange("Where?", "There."), submit_turn("How far?")
)

FOUND = assemble_next_prompt(TALKED, BLUEPRINT, FILES)


def expect_refusal(
    manifest: Manifest = FOUND.manifest,
    events: tuple[RecordedEvent, ...] = TALKED.events,
    blobs: dict[str, str] = BLOBS,
) -> str:
    with pytest.raises(Corrupt) as corrupt:
        read_prompt(manifest, events, blobs)
    return str(corrupt.value)


def change_part(layer: str, **change: object) -> Manifest:
    """Return the manifest with one part changed."""
    parts = tuple(
        part.model_copy(update=change) if part.layer == layer else part
        for part in FOUND.manifest.parts
    )
    return FOUND.manifest.model_copy(update={"parts": parts})


def test_a_prompt_reads_back_as_it_was_sent() -> None:
    assert read_prompt(FOUND.manifest, TALKED.events, BLOBS) == FOUND.request.messages


def test_readback_requests_only_the_blobs_of_the_prompt() -> None:
    assert blobs_named(FOUND.manifest) == (compute_digest("You are a guide."),)


def test_attribute_that_looks_like_content_reads_back_as_its_value() -> None:
    assert '{"text": "not content", "name": "Ada"}' in FOUND.request.messages[0].content


def test_later_events_do_not_change_an_earlier_prompt() -> None:
    later = TALKED.apply_steps(ExcludeTurn(1), RedactReply(2, "r", "operator", "(Withheld.)"))
    assert read_prompt(FOUND.manifest, later.events, BLOBS) == FOUND.request.messages


def test_unfetched_blob_is_reported_with_its_digest() -> None:
    assert (
        expect_refusal(blobs={}) == f"blob {compute_digest(FILES['persona'])}: it was not fetched"
    )


def test_blob_with_changed_text_is_refused() -> None:
    forged = dict.fromkeys(BLOBS, "You are a thief.")
    expected = "part persona: its text does not match the recorded digest"
    assert expect_refusal(blobs=forged) == expected


def change_text(sequence: int, content: Content) -> tuple[RecordedEvent, ...]:
    """Give the events with another text in one of them."""
    recorded = TALKED.events[sequence - 1]
    assert isinstance(recorded.event, TurnSubmitted)
    other = replace(recorded, event=recorded.event.model_copy(update={"text": content}))
    return (*TALKED.events[: sequence - 1], other, *TALKED.events[sequence:])


def test_changed_input_is_refused() -> None:
    events = change_text(len(TALKED.events), PlainText(text="How long?"))
    expected = "part input: its text does not match the recorded digest"
    assert expect_refusal(events=events) == expected


def test_changed_turn_is_refused() -> None:
    expected = "turns 1 to 2: their texts do not match the recorded digest"
    assert expect_refusal(events=change_text(3, PlainText(text="Hey"))) == expected


def test_missing_turn_is_reported_with_its_number() -> None:
    events = tuple(e for e in TALKED.events if e.sequence not in range(5, 8))
    assert expect_refusal(events=events) == "turn 2: it is not in the session's history"


def test_missing_event_is_reported_with_its_sequence() -> None:
    changed = change_part("input", source=EventTextSource(sequence=99, field="text"))
    assert expect_refusal(changed) == "event 99: it is not among the events of the session"


def test_text_that_can_no_longer_be_decrypted_is_refused() -> None:
    sealed = SealedText(sealed="AAAA", key="k", digest=compute_digest("How far?"), characters=8)
    assert expect_refusal(events=change_text(len(TALKED.events), sealed)).startswith("part input: ")
    assert expect_refusal(events=change_text(3, sealed)).startswith("turns 1 to 2: ")


def test_part_with_an_invalid_message_index_is_refused() -> None:
    lost = change_part("input", message=9)
    assert expect_refusal(lost) == "part input: it names no place among the messages"
