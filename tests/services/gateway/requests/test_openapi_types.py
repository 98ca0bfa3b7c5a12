"""The OpenAPI document says of every value what it is, except where nobody but an author knows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.services.gateway.requests.route_table import DOCUMENT
from turnlog.services.api.published_events.event_definitions import build_event_definitions

ATTRIBUTES: Final = "the blueprint declares names and types; `/v1/blueprints` has their JSON Schema"
PARAMETERS: Final = "passed on to litellm as the blueprint has them"
TOOLS: Final = (
    "the definition of a tool in the form of the provider, with the JSON Schema of its author"
)
RESOLVER: Final = "what a resolver returns is its own"
CALLER: Final = "stored for the caller and never interpreted"
IDENTIFIERS: Final = "the blueprint chooses the names of identifiers"
OUTPUT: Final = "a blueprint's schema decides its form"
STEP: Final = "each step of a ladder has settings of its own, written as in a blueprint"
PROVIDER: Final = "sent back to the provider as it came"

ANY_JSON: Final = {
    "AssembleRequest.attributes": ATTRIBUTES,
    "AssembleRequest.inputs": ATTRIBUTES,
    "AssembledPromptView.tools": TOOLS,
    "BlueprintMovedData.attributes": ATTRIBUTES,
    "BlueprintSchemas.attributes": "it is a JSON Schema",
    "BlueprintSchemas.inputs": "it is a JSON Schema",
    "CallFacts.parameters": PARAMETERS,
    "ContextAssembledData.parameters": PARAMETERS,
    "DebriefDonePayload.output": OUTPUT,
    "DecideApprovalRequest.arguments": "the schema of its tool describes them",
    "DescribeSessionRequest.metadata": CALLER,
    "ExchangeDonePayload.output": OUTPUT,
    "InheritableReferenceData.identifiers": IDENTIFIERS,
    "MessageView.reasoning": PROVIDER,
    "OpenSessionRequest.attributes": ATTRIBUTES,
    "OpenSessionRequest.metadata": CALLER,
    "PromptAssemblyMeta.truncated": "the names of its fields contain those of layers",
    "QuestionAnswer.meta": RESOLVER,
    "QuestionAnswer.results": RESOLVER,
    "RecordedPromptView.parameters": PARAMETERS,
    "RecordedPromptView.tools": TOOLS,
    "ReferenceUpdatedData.identifiers": IDENTIFIERS,
    "ReferencesView.last_reference": IDENTIFIERS,
    "ReplyDonePayload.output": OUTPUT,
    "ResolveReferencesRequest.identifiers": IDENTIFIERS,
    "ResolvedReferencesView.identifiers": IDENTIFIERS,
    "SessionDescribedData.metadata": CALLER,
    "SessionOpenedData.attributes": ATTRIBUTES,
    "SessionOpenedData.metadata": CALLER,
    "SessionRow.attributes": ATTRIBUTES,
    "SessionView.attributes": ATTRIBUTES,
    "SessionView.metadata": CALLER,
    "SettledTurnView.output": OUTPUT,
    "SubmitTurnRequest.inputs": ATTRIBUTES,
    "SubmitTurnRequest.meta": CALLER,
    "SubmitTurnRequest.metadata": CALLER,
    "SubmitTurnRequest.references": IDENTIFIERS,
    "ToolCallView.signature": PROVIDER,
    "TurnQueuedData.inputs": ATTRIBUTES,
    "TurnQueuedData.meta": CALLER,
    "TurnQueuedData.references": IDENTIFIERS,
    "TurnResolvedData.identifiers": IDENTIFIERS,
    "TurnResolvedData.meta": RESOLVER,
    "TurnSubmittedData.inputs": ATTRIBUTES,
    "TurnSubmittedData.meta": CALLER,
    "TurnSubmittedData.references": IDENTIFIERS,
    "TurnView.meta": CALLER,
    "TurnView.output": OUTPUT,
    "WhatIfRequest.ladder": STEP,
    "WhatIfStart.ladder": STEP,
    "WindowPreviewRequest.inputs": ATTRIBUTES,
    "WindowView.tools": TOOLS,
}
"""Fields that may be any JSON, with the reason."""

TYPE_WORDS: Final = frozenset(
    {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "properties"}
)


def iterate_schemas() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every schema of the document with its place: an operation, or a component and field."""
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            place = f"{method} {path}"
            for parameter in operation.get("parameters", ()):
                yield f"{place} {parameter['name']}", parameter["schema"]
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for body in bodies:
                for media_type, content in body.get("content", {}).items():
                    yield f"{place} {media_type}", content.get("schema", {})
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field, inner in schema.get("properties", {name: schema}).items():
            yield f"{name}.{field}" if "properties" in schema else name, inner


def is_untyped(schema: Mapping[str, Any] | bool) -> bool:  # noqa: FBT001 - true is a schema
    """Return whether a schema, or a part of it, leaves open what a value is."""
    if isinstance(schema, bool):
        return True
    if str(schema.get("$ref", "")).endswith("/JsonValue") or not TYPE_WORDS & set(schema):
        return True
    is_object = schema.get("type") == "object" and "properties" not in schema
    inner: list[Any] = [schema.get("additionalProperties", {})] if is_object else []
    inner += [schema.get("items", {})] if schema.get("type") == "array" else []
    inner += [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    inner += schema.get("properties", {}).values()
    return any(is_untyped(each) for each in inner)


def test_only_author_defined_values_are_untyped_in_openapi() -> None:
    untyped = {place for place, schema in iterate_schemas() if is_untyped(schema)}
    assert untyped == {*ANY_JSON, "JsonValue"}


def test_untyped_schemas_are_detected() -> None:
    number = {"type": "integer"}
    assert not is_untyped({"type": "object", "properties": {"a": number}})
    assert not is_untyped({"type": "object", "additionalProperties": number})
    untyped_schemas: tuple[Mapping[str, Any] | bool, ...] = (
        {},
        True,
        {"description": "something"},
        {"type": "object"},
        {"type": "array"},
        {"anyOf": [number, {}]},
        {"type": "object", "properties": {"a": {"title": "A"}}},
        {"type": "array", "items": {"$ref": "#/components/schemas/JsonValue"}},
    )
    assert [each for each in untyped_schemas if not is_untyped(each)] == []


def test_openapi_contains_the_published_event_definitions() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    definitions = build_event_definitions("#/components/schemas/")
    assert {name: schemas[name] for name in definitions} == definitions


def test_every_openapi_reference_resolves_to_a_component() -> None:
    names = re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(DOCUMENT))
    assert set(names) <= set(DOCUMENT["components"]["schemas"])
