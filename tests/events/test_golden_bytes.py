"""Bytes of every released event type stay readable, and are written unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.events.golden import GOLDEN, bytes_of, path_of
from turnlog.events.codec import read
from turnlog.events.envelope import Envelope
from turnlog.events.kinds import KINDS, Unknown, name_of
from turnlog.events.testing import AT, SESSION, TENANT, an_id
from turnlog.events.testing.samples import samples
from turnlog.events.upcast import upcast

NAMES = sorted(samples())


def test_there_are_golden_bytes_of_every_kind() -> None:
    assert {event.type for event in samples().values()} == set(KINDS)
    missing = [name for name in NAMES if not path_of(name, samples()[name]).exists()]
    assert missing == [], "write them with `python -m tests.events.golden`"


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.name)
def test_whatever_was_released_is_still_understood(path: Path) -> None:
    event = read(path.read_bytes(), 42)
    assert not isinstance(event.event, Unknown)
    assert event.stored == path.read_bytes()
    current, _ = upcast(event.envelope.type, event.envelope.data)
    assert type(event.event) is KINDS[current]


@pytest.mark.parametrize("name", NAMES)
def test_golden_bytes_mean_what_they_meant(name: str) -> None:
    event = samples()[name]
    recorded = read(path_of(name, event).read_bytes(), 42)
    assert recorded.event == event
    assert name_of(recorded.envelope.type) in name
    assert (recorded.tenant, recorded.session, recorded.sequence) == (TENANT, SESSION, 7)
    assert recorded.envelope.id == an_id(7)
    assert recorded.envelope.time.startswith(f"{AT:%Y-%m-%dT%H:%M}")


@pytest.mark.parametrize("name", NAMES)
def test_this_release_writes_the_bytes_that_were_released(name: str) -> None:
    event = samples()[name]
    assert bytes_of(event) == path_of(name, event).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_bytes_on_the_wire_agree_with_the_schemas(name: str) -> None:
    event = samples()[name]
    wire = json.loads(bytes_of(event))
    Draft202012Validator(Envelope.model_json_schema()).validate(wire)
    Draft202012Validator(type(event).model_json_schema()).validate(wire["data"])


def test_the_envelope_is_a_cloud_event() -> None:
    wire = json.loads(bytes_of(samples()["turn-submitted"]))
    assert {"specversion", "id", "source", "type", "subject", "time"} < set(wire)
    assert wire["specversion"] == "1.0"
    assert all(name.isalnum() and name.islower() and len(name) <= 20 for name in wire)
