"""Types of the published events for Go, from the JSON Schemas: one struct for each, with json tags.

Fields that have one of several forms are `json.RawMessage`, to be decoded by what tells them apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.docs.doc_pages import ROOT

SCHEMAS: Final = ROOT / "docs/reference/events.schema.json"

SIMPLE_TYPES: Final = {
    "boolean": "bool",
    "integer": "int64",
    "number": "float64",
    "string": "string",
}

Schema = Mapping[str, Any]


def format_name(field: str) -> str:
    """Return the exported name of a field."""
    return "".join(part[:1].upper() + part[1:] for part in field.replace("-", "_").split("_"))


def format_type(schema: Schema, structs: Mapping[str, Schema]) -> str:
    """Return the type of a value."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return str(name) if name in structs else "json.RawMessage"
    match schema.get("type"):
        case "array":
            return f"[]{format_type(schema['items'], structs)}"
        case "object" if values := schema.get("additionalProperties"):
            return f"map[string]{format_type(values, structs)}"
        case str(simple) if simple in SIMPLE_TYPES:
            return SIMPLE_TYPES[simple]
        case _:
            return "json.RawMessage"


def format_fields(schema: Schema, structs: Mapping[str, Schema]) -> Iterator[str]:
    """Yield the fields of a struct; what may be missing is a pointer, so that it can be told."""
    for base in schema.get("allOf", []):
        if "$ref" in base:
            yield f"\t{format_type(base, structs)}"
        else:
            yield from format_fields(base, structs)
    for name, each in schema.get("properties", {}).items():
        kind = format_type(each, structs)
        is_optional = name not in schema.get("required", [])
        pointer = "*" if is_optional and not kind.startswith(("[]", "map", "json.")) else ""
        tag = f'`json:"{name}{",omitempty" if is_optional else ""}"`'
        yield f"\t{format_name(name)} {pointer}{kind} {tag}"


def format_types(document: Schema) -> str:
    """Return the file with all types."""
    structs = {
        name: schema
        for name, schema in document["$defs"].items()
        if "properties" in schema or "allOf" in schema
    }
    lines = [
        "// Generated from events.schema.json.",
        "package main",
        "",
        'import "encoding/json"',
        "",
    ]
    for name, schema in structs.items():
        lines += [f"type {name} struct {{", *format_fields(schema, structs), "}", ""]
    return "\n".join(lines)


def write_types(folder: Path) -> None:
    """Write `types.go` into the folder of a program."""
    (folder / "types.go").write_text(format_types(json.loads(SCHEMAS.read_text())))
