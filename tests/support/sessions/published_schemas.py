"""The published JSON Schema of events, and how far a value keeps to it.

The published schemas allow fields that they do not list, as clients must. The ones here do not:
what the code sends has to be documented.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

SCHEMA_FILE: Final = Path(__file__).parents[3] / "docs/reference/events.schema.json"


@cache
def load_published_schema() -> Mapping[str, Any]:
    """Return the published schema."""
    schema: Mapping[str, Any] = json.loads(SCHEMA_FILE.read_text())
    return schema


@cache
def build_strict_validator(definition: str) -> Draft202012Validator:
    """Return a validator of a definition that also refuses fields which it does not list."""
    published = load_published_schema()["$defs"]
    closed = {name: close_definition(schema) for name, schema in published.items()}
    return Draft202012Validator({"$defs": closed, "$ref": f"#/$defs/{definition}"})


def close_definition(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition that has no other fields; the envelope is a part of many."""
    if "allOf" in schema:
        return {**schema, "unevaluatedProperties": False}
    if "properties" in schema and "specversion" not in schema["properties"]:
        return {**schema, "additionalProperties": False}
    return schema


def list_schema_faults(definition: str, value: Any) -> list[str]:  # noqa: ANN401 - any JSON
    """Return in which ways a value differs from a definition."""
    errors = build_strict_validator(definition).iter_errors(value)
    return [f"{error.json_path}: {error.message[:300]}" for error in errors]


def find_event_definition(envelope: Mapping[str, Any], union: str = "StoredEvent") -> str | None:
    """Return the definition of a stored event by its type; None if its type is not published."""
    mapping = load_published_schema()["$defs"][union]["discriminator"]["mapping"]
    reference = mapping.get(envelope.get("type"))
    return None if reference is None else str(reference).rpartition("/")[2]


def list_event_faults(envelope: Mapping[str, Any], union: str = "StoredEvent") -> list[str]:
    """Return in which ways a stored event differs from its published form."""
    definition = find_event_definition(envelope, union)
    if definition is None:
        return [f"there is no type {envelope.get('type')!r}"]
    return list_schema_faults(definition, envelope)


def list_turn_frame_faults(id_: str, event: str, data: object) -> list[str]:
    """Return in which ways an event of a turn's stream differs from its published form."""
    mapping = load_published_schema()["$defs"]["TurnStreamEvent"]["discriminator"]["mapping"]
    if event not in mapping:
        return [f"there is no event {event!r}"]
    definition = str(mapping[event]).rpartition("/")[2]
    return list_schema_faults(definition, {"id": id_, "event": event, "data": data})
