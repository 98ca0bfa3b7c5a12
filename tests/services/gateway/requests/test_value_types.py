"""Values of attributes and inputs that a blueprint lists or bounds, wherever they are accepted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

COURIER = """\
blueprint: courier
version: 1
attributes:
  district: {type: id, required: true}
  size: {type: id, enum: [small, large], default: small}
  order: {type: text, pattern: "[A-Z]{2}-[0-9]+", also: [orderNumber]}
inputs:
  mood: {type: text, enum: [calm, hurried]}
  stops: {type: int, min: 1, max: 9}
  note: {type: text, max_length: 5}
cartridge: {file: "districts/{district}/cartridge.yaml"}
layers:
  persona: {file: "districts/{district}/{size}.md", keep: always}
calls:
  reply: {messages: [{system: [persona]}, {user: [input]}]}
profiles:
  chat: {default: true, call: reply}
"""

PROMPTS = ("old-town/small", "old-town/large", "harbour/small")


@dataclass(frozen=True, slots=True, repr=False)
class CourierService:
    """A gateway, and the folder of the blueprint that it offers."""

    gateway: RunningGateway
    folder: Path

    def write_blueprint(self, before: str = "", after: str = "") -> None:
        """Write the blueprint with a text replaced."""
        assert before in COURIER
        (self.folder / "blueprint.yaml").write_text(COURIER.replace(before, after, 1))

    async def open_session(self, **attributes: object) -> str:
        """Open a session and return its id."""
        values = {"district": "old-town"} | attributes
        return await self.gateway.open_session("courier", attributes=values)

    async def expect_problem(self, path: str, body: dict[str, Any]) -> tuple[str, str, str, str]:
        """Return code, field, detail and fix of a request that is refused."""
        answer = await self.gateway.http.post(path, json=body)
        assert answer.status_code in {409, 422}, answer.text
        problem = answer.json()
        return problem["code"], problem["field"], problem["detail"], problem["fix"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CourierService]:
    root = tmp_path_factory.mktemp("types")
    folder = root / "library/courier"
    for name in PROMPTS:
        file = folder / f"districts/{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("You carry parcels.")
        (file.parent / "cartridge.yaml").write_text("streets: many")
    (folder / "blueprint.yaml").write_text(COURIER)
    async with (
        start_service(MemoryBackend(), "types", root, working=False) as first,
        first.start_another_gateway(blueprints=(folder.parent,)) as gateway,
    ):
        yield CourierService(gateway, folder)


OPENINGS = {
    "a value that is not listed": (
        {"district": "old-town", "size": "smal"},
        "value-not-allowed",
        "attributes.size",
        "it is not one of: small, large",
        "send small",
    ),
    "a value of another form, under its other name": (
        {"district": "old-town", "orderNumber": "LT-12x"},
        "value-not-allowed",
        "attributes.orderNumber",
        "it is not text, at most 4096 characters, all of it matching `[A-Z]{2}-[0-9]+`",
        "send text",
    ),
    "a cartridge that does not exist": (
        {"district": "old-tonw"},
        "unknown-cartridge",
        "attributes.district",
        "the attribute district is 'old-tonw'; there are: harbour, old-town",
        "write `old-town`",
    ),
    "a required file that does not exist": (
        {"district": "harbour", "size": "large"},
        "prompt-missing",
        "attributes.size",
        "the attribute size is 'large'; there are: small",
        "give size one of these values, or add districts/harbour/large.md to courier",
    ),
}


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/assemble"])
@pytest.mark.parametrize("case", OPENINGS)
async def test_invalid_attributes_are_refused_with_the_allowed_values(
    service: CourierService, path: str, case: str
) -> None:
    attributes, *expected = OPENINGS[case]
    body: dict[str, Any] = {"blueprint": "courier", "attributes": attributes}
    if path == "/v1/assemble":
        body["text"] = "Hi"
    code, field, detail, fix = await service.expect_problem(path, body)
    assert (code, field) == (expected[0], expected[1])
    assert expected[2] in detail
    assert fix.startswith(expected[3])


INPUTS = [
    ({"mood": "huried"}, "inputs.mood", "send hurried"),
    ({"stops": 10}, "inputs.stops", "send a whole number from 1 to 9"),
    ({"note": "too long"}, "inputs.note", "send text, at most 5 characters"),
]


@pytest.mark.parametrize(("inputs", "field", "fix"), INPUTS, ids=[each[1] for each in INPUTS])
async def test_invalid_inputs_are_refused_alike_in_turn_window_and_assemble_requests(
    service: CourierService, inputs: dict[str, object], field: str, fix: str
) -> None:
    session = await service.open_session(order="LT-12")
    body = {"text": "Go.", "inputs": inputs}
    opening = {"blueprint": "courier", "attributes": {"district": "harbour"}}
    for path, extra in (
        (f"/v1/sessions/{session}/turns", {}),
        (f"/v1/sessions/{session}/window", {}),
        ("/v1/assemble", opening),
    ):
        problem = await service.expect_problem(path, body | extra)
        assert (problem[0], problem[1], problem[3]) == ("value-not-allowed", field, fix)
    facts = await service.gateway.fetch_json(f"/v1/sessions/{session}")
    assert facts["sequence"] == 1


async def test_open_session_keeps_the_allowed_values_of_its_pinned_version(
    service: CourierService,
) -> None:
    session = await service.open_session(size="large")
    try:
        service.write_blueprint("enum: [small, large]", "enum: [small]")
        sent = await service.gateway.submit_turn(session, inputs={"mood": "hurried"})
        assert sent["turn"] == 1
        opening = {"blueprint": "courier", "attributes": {"district": "old-town", "size": "large"}}
        refused = await service.expect_problem("/v1/sessions", opening)
        assert refused[:2] == ("value-not-allowed", "attributes.size")
        fork = f"/v1/sessions/{session}/fork"
        forked = (await service.gateway.http.post(fork, json={"at": 1})).raise_for_status().json()
        again = await service.gateway.submit_turn(forked["session"], inputs={"mood": "calm"})
        assert again["turn"] == 1
        moved = await service.expect_problem(f"/v1/sessions/{forked['session']}/blueprint", {})
        assert moved[:2] == ("blueprint-does-not-fit", "attributes.size")
        for each in (session, forked["session"]):
            verified = await service.gateway.fetch_json(f"/v1/sessions/{each}/verify")
            assert verified["findings"] == []
    finally:
        service.write_blueprint()


async def test_a_missing_prompt_file_is_a_warning_of_the_opening(service: CourierService) -> None:
    opening = {
        "blueprint": "courier",
        "attributes": {"district": "harbour", "size": "large"},
    }
    try:
        service.write_blueprint(", keep: always", "")
        answer = await service.gateway.http.post("/v1/sessions", json=opening)
        opened = answer.raise_for_status().json()
        said = "layer persona is left out: districts/{district}/{size}.md was not found"
        assert opened["warnings"] == [said]
        seen = await service.gateway.fetch_json(f"/v1/sessions/{opened['session']}")
        assert seen["warnings"] == [said]
        service.write_blueprint("keep: always", "required: true")
        code, field, *_ = await service.expect_problem("/v1/sessions", opening)
        assert (code, field) == ("prompt-missing", "attributes.size")
    finally:
        service.write_blueprint()


async def test_blueprint_route_returns_the_schemas_of_attributes_and_inputs(
    service: CourierService,
) -> None:
    found = await service.gateway.fetch_json("/v1/blueprints/courier")
    attributes, inputs = found["attributes"]["properties"], found["inputs"]["properties"]
    assert attributes["size"] == {
        "type": "string",
        "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$",
        "enum": ["small", "large"],
        "default": "small",
    }
    order = {"type": "string", "maxLength": 4096, "pattern": "^(?:[A-Z]{2}-[0-9]+)$"}
    assert attributes["order"] == attributes["orderNumber"] == order
    assert inputs["stops"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert inputs["note"] == {"type": "string", "maxLength": 5}
