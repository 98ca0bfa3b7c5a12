"""`POST /v1/assemble`: a prompt from a blueprint and inputs alone; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from pydantic import JsonValue

from tests.segment_budgets.game_service import ENTRY, GUARD, GameService, build_npc_inputs
from tests.support.processes.live_service import TENANT

pytestmark = pytest.mark.asyncio(loop_scope="module")

STATE = {"game_state": "It is night.", "player": "A thief.", "rng": "seed 7"}

OPENINGS: dict[str, dict[str, JsonValue]] = {
    "araquem": {},
    "assistant": {},
    "game-master": {**ENTRY},
    "trickster": {"task": "lucky-draw"},
    "uderia": {},
}


async def assemble(coast: GameService, form: Mapping[str, JsonValue]) -> dict[str, Any]:
    answer = await coast.http.post("/v1/assemble", json=dict(form))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def assemble_turn(coast: GameService, text: str, **inputs: JsonValue) -> dict[str, Any]:
    form: dict[str, JsonValue] = {"blueprint": "game-master", "attributes": {**ENTRY}}
    return await assemble(coast, {**form, "text": text, "inputs": inputs})


async def request_refused(coast: GameService, **form: JsonValue) -> httpx.Response:
    answer = await coast.http.post("/v1/assemble", json={"blueprint": "game-master", **form})
    assert answer.is_client_error, answer.text
    return answer


async def test_assembled_prompt_and_report_equal_those_of_a_turn_with_the_same_arguments(
    coast: GameService,
) -> None:
    inputs: dict[str, JsonValue] = {
        **STATE,
        "npcs": build_npc_inputs((GUARD, 2)),
        "token_budget": 180,
    }
    text = "I knock and wait. " * 60
    session = await coast.open_session()
    turn = await coast.play_turn(session, text, **inputs)
    made = await assemble_turn(coast, text, **inputs)
    assert made["prompt"] == turn["prompt"] == coast.sent
    assert made["meta"] == turn["meta"]
    assert made["meta"]["truncated"]
    assert made["messages"] == [{"role": "user", "content": turn["prompt"]}]
    fixed = await coast.load_context_event(session, "1.1")
    assert made["manifest"]["digest"] == fixed.manifest.digest


async def test_first_turn_flag_of_the_caller_is_used(coast: GameService) -> None:
    first = await assemble_turn(coast, "Hm")
    later = await assemble_turn(coast, "Hm", first_turn=False)
    assert "entry_start" in first["meta"]["order"]
    assert "entry_start" not in later["meta"]["order"]


async def test_assembling_records_no_event_and_calls_no_model(coast: GameService) -> None:
    log, exchange_count = coast.service.nats.log, len(coast.provider.exchanges)
    await coast.service.list_calls(await coast.open_session())  # The rows of earlier tests are in.
    before = await log.get_last_stream_sequence(TENANT)
    sessions = await coast.service.get_json("/v1/sessions")
    await assemble_turn(coast, "I knock.", **STATE)
    assert await log.get_last_stream_sequence(TENANT) == before
    assert await coast.service.get_json("/v1/sessions") == sessions
    assert len(coast.provider.exchanges) == exchange_count


@pytest.mark.parametrize("blueprint", OPENINGS)
async def test_any_shipped_blueprint_assembles_the_prompt_of_a_new_session(
    coast: GameService, blueprint: str
) -> None:
    opening: dict[str, JsonValue] = {"blueprint": blueprint, "attributes": OPENINGS[blueprint]}
    made = await assemble(coast, {**opening, "text": "What is there?"})
    opened = await coast.http.post("/v1/sessions", json=opening)
    assert opened.status_code == 201, opened.text
    path = f"/v1/sessions/{opened.json()['session']}/window"
    window = (await coast.http.post(path, json={"text": "What is there?"})).json()
    assert (made["messages"], made["call"]) == (window["messages"], window["call"])
    assert made["manifest"]["digest"] == window["manifest"]["digest"]


async def test_invalid_arguments_are_refused_with_their_field(coast: GameService) -> None:
    unknown = await request_refused(coast, blueprint="game-mister", text="Hm")
    assert (unknown.status_code, unknown.json()["field"]) == (404, "blueprint")
    missing = await request_refused(coast, text="Hm")
    assert (missing.status_code, missing.json()["field"]) == (422, "attributes.entry_point")
    wrong = await request_refused(coast, attributes={**ENTRY}, text="Hm", inputs={"nps": []})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "inputs.nps")
    small = await request_refused(coast, attributes={**ENTRY}, text="Hm", budget=1)
    assert (small.status_code, small.json()["code"]) == (422, "over-budget")
