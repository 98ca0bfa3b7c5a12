"""Every route of the gateway with a valid request, which tests then spoil in one place.

The routes are read from the published document, because every process of the suite imports this
module and building the document takes a second; `test_service.py` compares it with the code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

REFERENCE: Final = Path(__file__).parents[4] / "docs/reference/openapi.json"

DOCUMENT: Final[Mapping[str, Any]] = json.loads(REFERENCE.read_text())

PATH_VALUES: Final = {
    "user": "ann",
    "category": "master_system",
    "session": "nobody",
    "tenant": "review",
    "turn": "1",
    "call": "1.1",
    "id": "t1",
    "second": "2.1",
    "blueprint": "clerk",
    "segment": "1",
    "collection": "cases",
    "entry": "late",
    "sequence": "1",
    "approval": "1",
    "name": "billing",
    "digest": f"sha256:{'0' * 64}",
}
"""Default path values; no such session is open."""

FIXED_FIELDS: Final[Mapping[str, object]] = {
    "blueprint": "assistant",
    "decision": "approve",
    "vote": "up",
    "roles": ["caller"],
}
"""Values of fields that are checked before the session is looked up."""


def _fill_required_fields(schema: Mapping[str, Any]) -> Mapping[str, object]:
    """Return a value of its type for each required field."""
    named = next((each for each in (schema, *schema.get("anyOf", ())) if "$ref" in each), schema)
    form = DOCUMENT["components"]["schemas"][named["$ref"].rpartition("/")[2]]
    values: dict[str, object] = {
        "string": "x",
        "integer": 1,
        "array": [],
        "object": {},
        "boolean": True,
    }
    fields = form["properties"]
    return {
        name: FIXED_FIELDS.get(name, values.get(fields[name].get("type"), {}))
        for name in form.get("required", ())
    }


@dataclass(frozen=True, slots=True)
class DocumentedRoute:
    """One route of the OpenAPI document."""

    method: str
    template: str
    operation: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.method} {self.template}"

    def build_path(self, **places: str) -> str:
        """Return the path with its parameters filled in."""
        return self.template.format_map(PATH_VALUES | places)

    @property
    def is_upload(self) -> bool:
        """Whether the body is bytes of some type, which is JSON for all other routes."""
        content = self.operation.get("requestBody", {"content": {}})["content"]
        return bool(content) and "application/json" not in content

    @property
    def form(self) -> Mapping[str, object] | None:
        """A body with all required fields; None if the route takes no body."""
        content = self.operation.get("requestBody", {"content": {}})["content"]
        if "application/json" not in content:
            return None
        return _fill_required_fields(content["application/json"]["schema"])

    @property
    def query(self) -> Mapping[str, str]:
        """A value for each parameter of the query that is required."""
        listed = self.operation.get("parameters", [])
        return {
            each["name"]: "x" for each in listed if each["in"] == "query" and each.get("required")
        }

    def list_parameters(self, place: str) -> dict[str, Mapping[str, Any]]:
        """Return the parameters in the path, the query or the headers, with their schemas."""
        listed = self.operation.get("parameters", [])
        return {each["name"]: each["schema"] for each in listed if each["in"] == place}


def _iterate_routes() -> Iterator[DocumentedRoute]:
    for template, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            yield DocumentedRoute(method.upper(), template, operation)


ROUTES: Final = tuple(_iterate_routes())

SESSION_ROUTES: Final = tuple(route for route in ROUTES if "{session}" in route.template)

JSON_ROUTES: Final = tuple(route for route in ROUTES if not route.is_upload)

BODY_ROUTES: Final = tuple(route for route in ROUTES if route.form is not None)


def is_integer_schema(schema: Mapping[str, Any]) -> bool:
    """Return whether a parameter is an integer or null."""
    kinds = schema.get("anyOf", [schema])
    return {kind["type"] for kind in kinds} <= {"integer", "null"}
