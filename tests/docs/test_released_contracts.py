"""The gate of `make check`: a change that breaks a consumer of a release names the field."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from docs.gate.contract_breaks import find_contract_breaks
from docs.gate.released_contracts import RELEASED, list_breaks

from turnlog.services.api.published_events.asyncapi_document import build_asyncapi

Document = dict[str, Any]


def get_definition(document: Document, name: str) -> Document:
    found: Document = document["components"]["schemas"][name]
    return found


def remove_field(document: Document) -> None:
    del get_definition(document, "TurnCompletedData")["properties"]["finish"]


def rename_field(document: Document) -> None:
    fields = get_definition(document, "TokenData")["properties"]
    fields["place"] = fields.pop("offset")


def require_field(document: Document) -> None:
    get_definition(document, "TurnSubmittedData")["required"].append("meta")


def make_field_optional(document: Document) -> None:
    get_definition(document, "TurnSubmittedData")["required"].remove("turn")


def change_type(document: Document) -> None:
    get_definition(document, "TurnSubmittedData")["properties"]["turn"]["type"] = "string"


def remove_word(document: Document) -> None:
    get_definition(document, "EventEnvelope")["properties"]["specversion"] = {
        "type": "string",
        "const": "2.0",
    }


def narrow_field(document: Document) -> None:
    get_definition(document, "TurnSubmittedData")["properties"]["turn"]["maximum"] = 9


def remove_type(document: Document) -> None:
    del document["components"]["messages"]["turn-completed"]


def move_type(document: Document) -> None:
    channels = document["channels"]
    (name,) = [
        name
        for name, each in channels.items()
        if each["address"] == "session.{tenant}.{session}.turn"
    ]
    del channels[name]["messages"]["turn-completed"]


def rename_subject(document: Document) -> None:
    document["channels"]["tokens"]["address"] = "token.{tenant}.{session}.{turn}"


CHANGES: Final[dict[str, tuple[Callable[[Document], None], str]]] = {
    "a removed field": (remove_field, "TurnCompletedData.finish: the field was removed"),
    "a renamed field": (rename_field, "TokenData.offset: the field was removed"),
    "a new required field": (require_field, "TurnSubmittedData.meta: it is required"),
    "a field that may be missing": (
        make_field_optional,
        "TurnSubmittedData.turn: it may be missing",
    ),
    "another type": (change_type, "TurnSubmittedData.turn: its type was integer and is string"),
    "another word": (remove_word, "EventEnvelope.specversion: the value '1.0' was removed"),
    "a narrowed field": (narrow_field, "TurnSubmittedData.turn: its maximum was None and is 9"),
    "a removed type": (remove_type, "turn-completed: the type was removed"),
    "a type on another subject": (move_type, "session.{tenant}.{session}.turn: turn-completed"),
    "another subject": (rename_subject, "tokens.{tenant}.{session}.{turn}: nothing is published"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_that_breaks_a_consumer_is_found_and_names_the_field(name: str) -> None:
    change, said = CHANGES[name]
    released: Document = json.loads(json.dumps(build_asyncapi()))
    current = copy.deepcopy(released)
    change(current)
    assert any(said in each for each in find_contract_breaks(released, current))


def test_additions_break_nobody() -> None:
    released: Document = json.loads(json.dumps(build_asyncapi()))
    current = copy.deepcopy(released)
    get_definition(current, "TurnCompletedData")["properties"]["later"] = {"type": "string"}
    finish = get_definition(current, "TurnCompletedData")["properties"]["finish"]
    finish["enum"].append("later")
    current["channels"]["alerts"] = current["channels"]["tokens"] | {"address": "alert.{tenant}"}
    current["components"]["messages"]["later"] = current["components"]["messages"]["token-event"]
    assert find_contract_breaks(released, current) == []


def test_field_that_is_not_promised_may_go() -> None:
    released: Document = json.loads(json.dumps(build_asyncapi()))
    current = copy.deepcopy(released)
    del get_definition(current, "TurnFailedData")["properties"]["detail"]
    assert [
        each for each in find_contract_breaks(released, current) if "field was removed" in each
    ] == []


def test_consumers_of_every_release_are_served_today() -> None:
    assert [*RELEASED.glob("*.json")]
    assert list_breaks() == []
