"""The client agrees with the service's OpenAPI document, and its two forms with each other."""

from __future__ import annotations

import importlib.util
import inspect
import json
from types import ModuleType
from typing import Any, get_args

import httpx
import pytest

from tests.docs.doc_pages import ROOT
from turnlog.client import operations, tenant_operations
from turnlog.client.operations import ClientOperation
from turnlog.client.request_retries import MAX_DELAY, MAX_TRIES, compute_retry_delay
from turnlog.client.sse_events import (
    DoneEvent,
    SseDecoder,
    SseMessage,
    StoredEnvelope,
    parse_turn_event,
)
from turnlog.contract.knowledge_payloads import PutEntryRequest
from turnlog.contract.override_payloads import OverrideCategory

DOCUMENT: dict[str, Any] = json.loads((ROOT / "docs/reference/openapi.json").read_text())

SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


def list_types(schema: dict[str, Any]) -> set[str]:
    """Return the JSON types that a value of a field may have; "any" where they are not stated."""
    if "anyOf" in schema:
        return {kind for each in schema["anyOf"] for kind in list_types(each)}
    return {schema.get("type", "any")}


def list_fields(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an object, with those of the objects it extends."""
    if "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    fields = dict(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        fields |= list_fields(part)
    return fields


def test_each_field_of_an_envelope_exists_in_the_service_schema() -> None:
    mine = StoredEnvelope.model_json_schema()["properties"]
    theirs = list_fields(SCHEMAS["TurnCompletedEvent"])
    assert mine.keys() <= theirs.keys()
    for field in mine:
        assert list_types(theirs[field]) <= list_types(mine[field]) | {"any"}, field


def list_operations() -> list[ClientOperation[Any]]:
    """Return each operation of the clients, with a value for everything that it takes."""
    makers = [
        maker
        for module in (operations, tenant_operations)
        for name, maker in inspect.getmembers(module, inspect.isfunction)
        if maker.__module__ == module.__name__
        and str(inspect.signature(maker).return_annotation).startswith("ClientOperation")
        and not name.startswith("build_")
    ]
    return [
        maker(
            **{
                name: create_argument(each)
                for name, each in inspect.signature(maker).parameters.items()
            }
        )
        for maker in makers
        if maker is not operations.wait_for_turn
    ] + [operations.wait_for_turn(operations.submit_turn("s", "Hello"), 1.0)]


def create_argument(parameter: inspect.Parameter) -> object:
    """Return a value of the type of a parameter."""
    kind = str(parameter.annotation)
    values: dict[str, object] = {
        "str": "x",
        "int": 1,
        "bool": True,
        "bytes": b"x",
        "Mapping": {},
        "Sequence": (),
        "PutEntryRequest": PutEntryRequest(text="t"),
        "ApprovalDecision": "approve",
        "FeedbackVote": "up",
        "SessionOrder": "near",
        "ErasedPart": "turn",
        "RedactedPart": "text",
        "ShareAccess": "read",
        "SessionFilters": {"text": "t", "user": "ann", "open": True},
    }
    return next(value for name, value in values.items() if kind.startswith(name))


def find_route(operation: ClientOperation[Any]) -> dict[str, Any]:
    """Return what the document says of the route of an operation."""
    path = operation.path.split("/")
    (found,) = (
        methods[operation.method.lower()]
        for template, methods in DOCUMENT["paths"].items()
        if len(template.split("/")) == len(path)
        and all(
            part == own or part.startswith("{")
            for part, own in zip(template.split("/"), path, strict=True)
        )
    )
    return dict(found)


def list_component_names(content: dict[str, Any]) -> list[str]:
    """Return the names of the components that a JSON body may be."""
    schema = content["application/json"]["schema"]
    kinds = schema.get("anyOf", [schema])
    return [kind["$ref"].rpartition("/")[2] for kind in kinds if "$ref" in kind]


@pytest.mark.parametrize(
    "operation", list_operations(), ids=lambda each: f"{each.method} {each.path}"
)
def test_operation_sends_and_reads_what_its_route_is_described_by(
    operation: ClientOperation[Any],
) -> None:
    route = find_route(operation)
    answers = [
        name
        for status, response in route["responses"].items()
        if status.startswith("2")
        for name in list_component_names(response["content"])
    ]
    assert operation.answer.__name__ in answers
    if operation.body:
        (form,) = list_component_names(route["requestBody"]["content"])
        assert operation.body.keys() <= SCHEMAS[form]["properties"].keys()
    queries = {each["name"] for each in route.get("parameters", ()) if each["in"] == "query"}
    assert operation.query.keys() <= queries


def test_prompt_categories_match_those_of_the_service() -> None:
    route = DOCUMENT["paths"]["/v1/overrides/{blueprint}/{category}/{user}"]["put"]
    (category,) = [each for each in route["parameters"] if each["name"] == "category"]
    assert list(get_args(OverrideCategory)) == category["schema"]["enum"]


def load_generator(name: str) -> ModuleType:
    file = ROOT / f"docs/generate/{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name}_generator", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_blocking_client_is_generated_from_the_asynchronous_one() -> None:
    generator = load_generator("sync_client")
    for name in generator.DOCSTRINGS:
        assert generator.build_sync_module(name) == generator.get_target(name).read_text()


def test_done_event_contains_the_structured_value() -> None:
    reply = '{"turn":1,"sequence":7,"finish":"stop"'
    for data, output in (
        (reply + ',"output":{"mood":"fine"}}', {"mood": "fine"}),
        (reply + "}", None),
    ):
        end = parse_turn_event(SseMessage("done", data, "1.1.9.done"))
        assert isinstance(end, DoneEvent)
        assert end.output == output


def test_sse_messages_are_decoded_regardless_of_chunk_boundaries() -> None:
    stream = 'id: 1\nevent: token\ndata: {"text":"a\u2028b"}\n\n'.encode()
    stream += b"retry: 1000\n\n: alive\n\nid: 2\r\ndata: x\r\ndata: y\r\n\r\ndata: cut off"
    whole = [*SseDecoder().decode_bytes(stream)]
    assert [(each.name, each.data, each.cursor) for each in whole] == [
        ("token", '{"text":"a\u2028b"}', "1"),
        ("message", "x\ny", "2"),
    ]
    decoder = SseDecoder()
    assert [each for byte in stream for each in decoder.decode_bytes(bytes([byte]))] == whole


@pytest.mark.parametrize(
    ("tries", "status", "delay"),
    [(1, None, 0.2), (3, None, 0.8), (MAX_TRIES, None, None), (1, 404, None), (1, 500, None)],
)
def test_unanswered_requests_are_retried_and_refused_ones_are_not(
    tries: int, status: int | None, delay: float | None
) -> None:
    response = httpx.Response(status) if status else None
    assert compute_retry_delay(tries, response) == delay


def test_retry_after_header_sets_the_delay_within_limits() -> None:
    def ask(seconds: str) -> float | None:
        return compute_retry_delay(1, httpx.Response(503, headers={"Retry-After": seconds}))

    assert (ask("2"), ask("30"), ask("soon")) == (2.0, MAX_DELAY, 0.2)
    assert ask("86400") is None, "a quota that is used up is nothing to wait for"


def test_session_clients_have_a_method_for_each_operation_on_a_session() -> None:
    generator = load_generator("session_requests")
    assert generator.build_requests() == generator.TARGET.read_text()
    assert "async def record_feedback" in generator.build_requests()
