"""Bytes of every released event type stay readable, and are written unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.events.golden_bytes import GOLDEN, encode_event, get_golden_path
from tests.support.generators.event_samples import build_samples
from turnlog.events.codec import decode_event
from turnlog.events.envelope import Envelope
from turnlog.events.registry import EVENT_TYPES, UnknownEvent, apply_upcasters, format_event_name
from turnlog.events.testing import FIRST_EVENT_TIME, SESSION, TENANT, make_id

NAMES = sorted(build_samples())


def test_every_event_type_has_golden_bytes() -> None:
    assert {event.type for event in build_samples().values()} == set(EVENT_TYPES)
    missing = [name for name in NAMES if not get_golden_path(name, build_samples()[name]).exists()]
    assert missing == [], "write them with `python -m tests.events.golden_bytes`"


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.name)
def test_every_released_event_is_still_decoded(path: Path) -> None:
    event = decode_event(path.read_bytes(), 42)
    assert not isinstance(event.event, UnknownEvent)
    assert event.stored == path.read_bytes()
    current, _ = apply_upcasters(event.envelope.type, event.load_data())
    assert type(event.event) is EVENT_TYPES[current]


@pytest.mark.parametrize("name", NAMES)
def test_golden_bytes_decode_to_their_original_event(name: str) -> None:
    event = build_samples()[name]
    recorded = decode_event(get_golden_path(name, event).read_bytes(), 42)
    assert recorded.event == event
    assert format_event_name(recorded.envelope.type) in name
    assert (recorded.tenant, recorded.session, recorded.sequence) == (TENANT, SESSION, 7)
    assert recorded.envelope.id == make_id(7)
    assert recorded.envelope.time.startswith(f"{FIRST_EVENT_TIME:%Y-%m-%dT%H:%M}")


@pytest.mark.parametrize("name", NAMES)
def test_this_release_writes_the_released_bytes(name: str) -> None:
    event = build_samples()[name]
    assert encode_event(event) == get_golden_path(name, event).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_stored_bytes_match_the_schemas(name: str) -> None:
    event = build_samples()[name]
    wire = json.loads(encode_event(event))
    Draft202012Validator(Envelope.model_json_schema()).validate(wire)
    Draft202012Validator(type(event).model_json_schema()).validate(wire["data"])


def test_envelope_is_a_cloud_event() -> None:
    wire = json.loads(encode_event(build_samples()["turn-submitted"]))
    assert {"specversion", "id", "source", "type", "subject", "time"} < set(wire)
    assert wire["specversion"] == "1.0"
    assert all(name.isalnum() and name.islower() and len(name) <= 20 for name in wire)
