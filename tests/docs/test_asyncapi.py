"""The AsyncAPI document and the schemas of single types: fresh, complete, valid, and usable."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final, get_args

import jsonschema
import pytest
from jsonschema import Draft202012Validator

from tests.docs.asyncapi_parser import NODE, TOOLS, needs_tools, parse_document
from turnlog.events.registry import (
    ALERT_EVENT_TYPES,
    EVENT_TYPES,
    LIBRARY_EVENT_TYPES,
    format_event_name,
)
from turnlog.events.subjects import SESSION_HISTORY, build_token_subject
from turnlog.events.tokens import (
    TOKEN_EVENT,
    AttemptAbandoned,
    AttemptAlive,
    AttemptReset,
    ReasoningPiece,
    Token,
    TokenEvent,
)
from turnlog.services.api.published_events.asyncapi_document import (
    build_asyncapi,
    iterate_members,
)

ROOT: Final = Path(__file__).parents[2]

GENERATOR: Final = runpy.run_path(str(ROOT / "docs/generate/asyncapi.py"))

REFERENCE: Final = ROOT / "docs/reference"

GOLDEN: Final = sorted(
    path
    for folder in ("golden", "golden_library", "golden_alerts")
    for path in (ROOT / "tests/events" / folder).glob("*.json")
)


def load_document() -> dict[str, Any]:
    return dict(json.loads((REFERENCE / "asyncapi.json").read_text()))


def test_generated_document_and_schemas_are_fresh() -> None:
    assert GENERATOR["format_document"]() == (REFERENCE / "asyncapi.json").read_text()
    texts = GENERATOR["format_schemas"]()
    assert texts == {each.name: each.read_text() for each in (REFERENCE / "schemas").iterdir()}


def test_every_type_of_events_has_a_channel_with_its_subject() -> None:
    document = build_asyncapi()
    channels = document["channels"].values()
    for wire_type, kind in EVENT_TYPES.items():
        subject = SESSION_HISTORY.build_subject("TENANT", "SESSION", kind.leaf)
        address = subject.replace("TENANT", "{tenant}").replace("SESSION", "{session}")
        found = [
            each["address"] for each in channels if format_event_name(wire_type) in each["messages"]
        ]
        assert sorted(found) == [f"live.{address}", address]
    for wire_type in LIBRARY_EVENT_TYPES:
        (only,) = [each for each in channels if format_event_name(wire_type) in each["messages"]]
        assert only["address"].startswith("library.{tenant}.")
    for wire_type, event in ALERT_EVENT_TYPES.items():
        (only,) = [each for each in channels if format_event_name(wire_type) in each["messages"]]
        assert only["address"] == f"alert.{{tenant}}.{{alert}}.{event.leaf}"
    # Consumers have no access to the log of reads.
    assert "record-read" not in document["components"]["messages"]
    tokens = document["channels"]["tokens"]["address"]
    assert tokens.format(tenant="t", session="s", turn=3) == build_token_subject("t", "s", 3)


def list_discriminators(schema: object) -> list[object]:
    members = tuple(iterate_members(schema))
    found = [value for name, value in members if name == "discriminator"]
    return found + [one for _, value in members for one in list_discriminators(value)]


def test_discriminators_are_names_of_properties() -> None:
    found = list_discriminators(build_asyncapi())
    assert {"type", "event", "kind"} <= {*found}
    assert all(isinstance(each, str) for each in found)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_released_event_matches_the_schema_of_its_type(path: Path) -> None:
    event = json.loads(path.read_bytes())
    file = REFERENCE / f"schemas/{event['type']}.json"
    if not file.exists():
        pytest.skip("an earlier version of its type, which this release does not write")
    schema = json.loads(file.read_text())
    validator = Draft202012Validator(schema)
    assert [each.message for each in validator.iter_errors(event)] == []
    later = event | {"later": 1, "data": event["data"] | {"later": {"x": 1}}}
    validator.validate(later)  # A reader must not refuse what a later release adds.
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({key: value for key, value in event.items() if key != "sequence"})


@pytest.mark.parametrize(
    "event",
    [
        Token(call="1.1", attempt=1, offset=0, text="Hel"),
        ReasoningPiece(call="1.1", attempt=1, offset=0, text="A harbour"),
        AttemptAlive(call="1.1", attempt=1, doing="think"),
        AttemptReset(call="1.1", attempt=2),
        AttemptAbandoned(call="1.1", attempt=1),
    ],
    ids=lambda event: event.kind,
)
def test_token_event_as_published_matches_its_schema(event: TokenEvent) -> None:
    document = load_document()
    schema = {"$ref": "#/components/schemas/TokenEvent", "components": document["components"]}
    stored = json.loads(TOKEN_EVENT.dump_json(event, exclude_none=True))
    Draft202012Validator(schema).validate(stored)
    with pytest.raises(jsonschema.ValidationError):
        Draft202012Validator(schema).validate(stored | {"kind": "of-nothing"})


def test_every_class_of_token_events_is_in_the_document() -> None:
    names = {f"{kind.__name__}Data" for kind in get_args(get_args(TokenEvent)[0])}
    assert names <= load_document()["components"]["schemas"].keys()


@needs_tools
@pytest.mark.slow("the official parser reads the document")
def test_official_parser_finds_nothing_wrong_with_the_document(tmp_path: Path) -> None:
    document = load_document()
    result = parse_document(REFERENCE / "asyncapi.json")
    assert result["faults"] == []
    assert result["channels"] == len(document["channels"])
    assert result["messages"] == len(document["components"]["messages"])
    broken = tmp_path / "asyncapi.json"
    document["channels"]["tokens"]["servers"] = [{"$ref": "#/servers/none"}]
    broken.write_text(json.dumps(document))
    assert parse_document(broken)["faults"]


@needs_tools
@pytest.mark.slow("types are generated and compiled")
def test_types_of_json2ts_narrow_by_the_type_of_an_event(tmp_path: Path) -> None:
    assert NODE
    compilers = TOOLS / "node_modules/.bin"
    for name, schema in {
        "events": "events.schema.json",
        "tokens": "schemas/TokenEvent.json",
    }.items():
        command = [str(compilers / "json2ts"), "-i", str(REFERENCE / schema)]
        made = run_tool([*command, "--no-additionalProperties"])
        assert made.returncode == 0, made.stderr
        (tmp_path / f"{name}.ts").write_text(made.stdout)
    shutil.copy(Path(__file__).parent / "contracts/consumer.ts", tmp_path)
    checked = [str(compilers / "tsc"), "--strict", "--noEmit", "--skipLibCheck"]
    compiled = run_tool([*checked, str(tmp_path / "consumer.ts")])
    assert compiled.returncode == 0, compiled.stdout


def run_tool(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
