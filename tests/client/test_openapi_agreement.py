"""The client agrees with the service's OpenAPI document, and its two forms with each other."""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType
from typing import Any, get_args

import httpx
import pytest
from pydantic import BaseModel

from tests.docs.doc_pages import ROOT
from turnlog.client.answers import (
    CommandAnswer,
    DebriefDone,
    ExchangeDone,
    ExclusionPreviewAnswer,
    HistoryAnswer,
    OpenApprovalAnswer,
    OpenTurnAnswer,
    PendingApprovalAnswer,
    ReplyDone,
    SessionAnswer,
    SessionListAnswer,
    SessionListEntry,
    StoredEnvelope,
    SubmitAnswer,
    SummaryAnswer,
    ToolResultAnswer,
    TurnAnswer,
    TurnEntry,
    TurnRangeAnswer,
    UncoveredTurnsAnswer,
    UnsettledAnswer,
)
from turnlog.client.operations import MAX_DELAY, MAX_TRIES, compute_retry_delay
from turnlog.client.sse_events import DoneEvent, SseDecoder, SseMessage, parse_turn_event
from turnlog.contract.override_payloads import OverrideCategory

DOCUMENT: dict[str, Any] = json.loads((ROOT / "docs/reference/openapi.json").read_text())

SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]

AGREEMENTS = (
    (CommandAnswer, "CommandResult"),
    (SubmitAnswer, "SubmittedTurn"),
    (TurnAnswer, "SettledTurnView"),
    (UnsettledAnswer, "UndecidedTurnView"),
    (PendingApprovalAnswer, "RequestedApproval"),
    (ReplyDone, "ReplyDonePayload"),
    (ExchangeDone, "ExchangeDonePayload"),
    (DebriefDone, "DebriefDonePayload"),
    (StoredEnvelope, "TurnCompletedEvent"),
    (TurnEntry, "TurnView"),
    (HistoryAnswer, "HistoryView"),
    (SessionAnswer, "SessionView"),
    (OpenTurnAnswer, "OpenTurnView"),
    (OpenApprovalAnswer, "PendingApproval"),
    (ToolResultAnswer, "ToolResultView"),
    (SessionListEntry, "SessionRow"),
    (SessionListAnswer, "SessionPage"),
    (TurnRangeAnswer, "TurnRangeView"),
    (SummaryAnswer, "SummaryView"),
    (UncoveredTurnsAnswer, "UncoveredTurns"),
    (ExclusionPreviewAnswer, "ExclusionPreviewView"),
)


def list_types(schema: dict[str, Any]) -> set[str]:
    """Return the JSON types that a value of a field may have; "any" where they are not stated."""
    if "$ref" in schema:
        # A class that only the client has is an object.
        return list_types(SCHEMAS.get(schema["$ref"].rpartition("/")[2], {"type": "object"}))
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


@pytest.mark.parametrize(("answer", "name"), AGREEMENTS, ids=str)
def test_each_answer_field_exists_in_the_service_schema(answer: type[BaseModel], name: str) -> None:
    mine, theirs = answer.model_json_schema()["properties"], list_fields(SCHEMAS[name])
    assert mine.keys() <= theirs.keys()
    for field, schema in theirs.items():
        if field in mine:
            assert list_types(schema) <= list_types(mine[field]) | {"any"}, field


def test_prompt_categories_match_those_of_the_service() -> None:
    route = DOCUMENT["paths"]["/v1/overrides/{blueprint}/{category}/{user}"]["put"]
    (category,) = [each for each in route["parameters"] if each["name"] == "category"]
    assert list(get_args(OverrideCategory)) == category["schema"]["enum"]


def load_generator() -> ModuleType:
    file = ROOT / "docs/generate/sync_client.py"
    spec = importlib.util.spec_from_file_location("sync_client_generator", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_blocking_client_is_generated_from_the_asynchronous_one() -> None:
    generator = load_generator()
    assert generator.build_sync_client() == generator.TARGET.read_text()


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
