"""A gateway whose shipped blueprints are hidden: nothing new begins with them, nothing ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = {"question": "Hi?", "client_id": "c", "conversation_id": "v", "nickname": "n"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hiding(bare: RunningGateway) -> AsyncIterator[RunningGateway]:
    async with bare.start_another_gateway(shipped_blueprints="off") as gateway:
        yield gateway


async def test_hidden_blueprints_are_not_listed_and_return_404(
    bare: RunningGateway, hiding: RunningGateway
) -> None:
    shown = {each["blueprint"] for each in (await bare.fetch_json("/v1/blueprints"))["blueprints"]}
    left = {each["blueprint"] for each in (await hiding.fetch_json("/v1/blueprints"))["blueprints"]}
    assert shown - left == {
        each.parent.name for each in SHIPPED_BLUEPRINTS.glob("*/blueprint.yaml")
    }
    assert "clerk" in left
    for answer in (
        await hiding.http.get("/v1/blueprints/assistant"),
        await hiding.http.post("/v1/sessions", json={"blueprint": "assistant"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-blueprint")
        assert "uderia" not in answer.json()["fix"]


async def test_ask_route_of_a_hidden_blueprint_returns_404(
    bare: RunningGateway, hiding: RunningGateway
) -> None:
    unknown = await hiding.http.post("/v1/nothing", json=QUESTION)
    answer = await hiding.http.post("/v1/ask", json=QUESTION)
    for each in (unknown, answer):
        assert (each.status_code, each.json()["code"]) == (404, "unknown-route")
    assert (await hiding.http.get("/v1/ask")).status_code == 404
    assert "/v1/ask" not in (await hiding.fetch_json("/openapi.json"))["paths"]
    # A blueprint of the operator's own still answers there; this one only has no front door.
    async with bare.start_another_gateway(shipped_blueprints="off", ask="clerk") as gateway:
        answer = await gateway.http.post("/v1/ask", json=QUESTION)
        assert (answer.status_code, answer.json()["code"]) == (404, "no-front-door")


async def test_session_of_a_hidden_blueprint_continues(
    bare: RunningGateway, hiding: RunningGateway
) -> None:
    session = await bare.open_session("assistant", attributes={"language": "Dutch"})
    assert (await hiding.submit_turn(session))["turn"] == 1
    preview = await hiding.http.post(f"/v1/sessions/{session}/window", json={"text": "And then?"})
    assert preview.status_code == 200, preview.text
    other = await bare.open_session("assistant", attributes={"language": "Dutch"})
    moved = await hiding.http.post(f"/v1/sessions/{other}/blueprint", json={})
    assert (moved.status_code, moved.json()["moved"]) == (200, False), moved.text
