"""The reference of events agrees with the code and with what any release has recorded."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from tests.replay.golden_logs import list_golden_logs
from tests.support.sessions.published_schemas import (
    find_event_definition,
    list_event_faults,
    list_turn_frame_faults,
    load_published_schema,
)
from turnlog.events.registry import EVENT_TYPES, TENANT_EVENT_TYPES, format_event_name
from turnlog.services.api.published_events.event_definitions import UNPROMISED_KEYWORD
from turnlog.services.api.published_events.field_promises import UNPROMISED_FIELDS

ROOT: Final = Path(__file__).parents[2]

GENERATOR: Final = runpy.run_path(str(ROOT / "docs/generate/event_reference.py"))

GOLDEN_EVENTS: Final = sorted((ROOT / "tests/events/golden").glob("*.json"))

GOLDEN_LIBRARY_EVENTS: Final = sorted((ROOT / "tests/events/golden_library").glob("*.json"))

GOLDEN_READ_EVENTS: Final = sorted((ROOT / "tests/events/golden_reads").glob("*.json"))

GOLDEN_ALERT_EVENTS: Final = sorted((ROOT / "tests/events/golden_alerts").glob("*.json"))


@pytest.mark.parametrize(
    ("file", "format_file"),
    [("events.schema.json", "format_schema"), ("events.md", "format_page")],
)
def test_generated_file_is_fresh(file: str, format_file: str) -> None:
    written = (ROOT / "docs/reference" / file).read_text()
    assert GENERATOR[format_file]() == written, "it is stale: run `make docs`"


@pytest.mark.slow("whole logs are compared with the published schema")
def test_published_schema_is_valid_json_schema() -> None:
    Draft202012Validator.check_schema(load_published_schema())


@pytest.mark.parametrize("path", GOLDEN_EVENTS, ids=lambda path: path.stem)
def test_every_released_event_matches_its_schema(path: Path) -> None:
    assert list_event_faults(json.loads(path.read_bytes())) == []


@pytest.mark.parametrize("path", GOLDEN_LIBRARY_EVENTS, ids=lambda path: path.stem)
def test_every_released_library_event_matches_its_schema(path: Path) -> None:
    assert list_event_faults(json.loads(path.read_bytes()), "StoredLibraryEvent") == []


@pytest.mark.parametrize("path", GOLDEN_ALERT_EVENTS, ids=lambda path: path.stem)
def test_every_released_event_of_alerts_matches_its_schema(path: Path) -> None:
    assert list_event_faults(json.loads(path.read_bytes()), "StoredAlertEvent") == []


@pytest.mark.parametrize("path", GOLDEN_READ_EVENTS, ids=lambda path: path.stem)
def test_every_released_event_of_reads_matches_its_schema(path: Path) -> None:
    assert list_event_faults(json.loads(path.read_bytes()), "StoredReadEvent") == []


@pytest.mark.slow("whole logs are compared with the published schema")
@pytest.mark.parametrize("folder", list_golden_logs(), ids=lambda folder: folder.name)
def test_every_event_of_a_recorded_log_matches_its_schema(folder: Path) -> None:
    lines = [
        json.loads(line)
        for path in sorted(folder.glob("sessions/**/*.ndjson"))
        for line in path.read_bytes().splitlines()
    ]
    assert lines
    assert [fault for line in lines for fault in list_event_faults(line)] == []


@pytest.mark.parametrize("path", GOLDEN_EVENTS, ids=lambda path: path.stem)
def test_event_with_a_missing_or_unknown_field_violates_its_schema(path: Path) -> None:
    envelope: dict[str, Any] = json.loads(path.read_bytes())
    definition = find_event_definition(envelope)
    assert definition is not None
    data_schema = load_published_schema()["$defs"][definition.removesuffix("Event") + "Data"]
    for name in data_schema.get("required", ()):
        data = {key: value for key, value in envelope["data"].items() if key != name}
        assert list_event_faults(envelope | {"data": data}), name
        assert list_event_faults(envelope | {"data": envelope["data"] | {name: object}}), name
    assert list_event_faults(envelope | {"data": envelope["data"] | {"unheard": 1}})
    assert list_event_faults(envelope | {"unheard": 1})


def test_union_of_events_accepts_added_fields_and_rejects_unknown_types() -> None:
    any_event = Draft202012Validator(
        {**load_published_schema(), "$ref": "#/$defs/StoredEvent"},
    )
    envelope = json.loads(GOLDEN_EVENTS[0].read_bytes())
    assert any_event.is_valid(envelope)
    assert any_event.is_valid(envelope | {"added": 1}), "a later release may add fields"
    assert not any_event.is_valid(envelope | {"type": "turnlog.turn-praised.v1"})


def test_every_event_type_has_golden_bytes_and_is_on_the_page() -> None:
    page = (ROOT / "docs/reference/events.md").read_text()
    released = {json.loads(path.read_bytes())["type"] for path in GOLDEN_EVENTS}
    assert released == set(EVENT_TYPES)
    for wire_type in (*EVENT_TYPES, *TENANT_EVENT_TYPES):
        assert f"\n### {format_event_name(wire_type)}\n" in page


def test_every_field_is_described_and_every_unpromised_field_exists() -> None:
    definitions = load_published_schema()["$defs"]
    undescribed = [
        (name, field)
        for name, definition in definitions.items()
        if name.endswith(("Data", "Payload", "Envelope", "Page"))
        for field, schema in definition.get("properties", {}).items()
        if "description" not in schema
    ]
    assert undescribed == []
    fields = [
        field for each in definitions.values() for field in each.get("properties", {}).values()
    ]
    marked = [field for field in fields if UNPROMISED_KEYWORD in field]
    assert len(marked) == len(UNPROMISED_FIELDS)


@pytest.mark.parametrize("example", GENERATOR["EXAMPLES"], ids=lambda each: each[1].event)
def test_every_example_of_a_stream_matches_its_schema(example: tuple[str, Any]) -> None:
    cursor, payload = example
    data = json.loads(payload.model_dump_json())
    assert list_turn_frame_faults(cursor, payload.event, data) == []
    assert list_turn_frame_faults(cursor, payload.event, data | {"unheard": 1})
    assert list_turn_frame_faults("7", payload.event, data)


def test_every_payload_of_a_turn_stream_has_an_example() -> None:
    shown: set[type] = {type(payload) for _, payload in GENERATOR["EXAMPLES"]}
    assert shown == set(GENERATOR["TURN_STREAM_PAYLOADS"])
