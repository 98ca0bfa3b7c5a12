"""Tools of a third-party server, over HTTP, litellm and a process of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.processes.process_host import run_process_host
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from tests.support.sessions.event_parts import find_part
from turnlog.events.model.tool_events import ToolReturned, ToolsSnapshotted

pytestmark = pytest.mark.asyncio(loop_scope="module")

BLUEPRINT = Path(__file__).parent / "blueprints/clockmaker.yaml"


@dataclass(frozen=True, slots=True, repr=False)
class ClockService:
    """A running service with a real tool server; only the model's words are scripted."""

    up: TurnlogUp
    provider: OpenAIServer

    async def submit_turn(self, *answers: ModelAnswer, session: str | None = None) -> str:
        """Submit a turn, let the model give these answers, and return the session."""
        session = session or await self.up.service.open_session("clockmaker")
        self.provider.queue_behaviours(*answers)
        turn = await self.up.service.run_turn(session, "What time is it in Vilnius?")
        assert turn["status"] == "completed", turn
        return session

    async def load_events(self, session: str, kind: type[Any]) -> list[Any]:
        events = await self.up.service.list_events(session)
        return [part for each in events if (part := find_part(each.event, kind))]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ClockService]:
    folder = tmp_path_factory.mktemp("shop")
    blueprint = folder / "blueprints/clockmaker/blueprint.yaml"
    blueprint.parent.mkdir(parents=True)
    blueprint.write_text(BLUEPRINT.read_text())
    async with OpenAIServer() as provider:
        variables = {"TURNLOG_BLUEPRINTS": str(folder / "blueprints"), "TURNLOG_ACK_WAIT": "60"}
        async with (
            run_process_host(folder, build_settings(provider) | variables) as host,
            run_turnlog_up(host) as up,
        ):
            yield ClockService(up, provider)


def answer_with_plan(*goals: str) -> ModelAnswer:
    """Return a plan of steps that may call any tool."""
    return ModelAnswer(tokens=(json.dumps({"steps": [{"goal": goal} for goal in goals]}),))


def answer_with_time_call(zone: str) -> ModelAnswer:
    """Return an answer that requests the time of a zone."""
    tool_request = ("time_get_current_time", json.dumps({"timezone": zone}))
    return ModelAnswer(tokens=(), finish="tool_calls", tool_calls=(tool_request,))


@pytest.mark.slow("real tool servers start")
async def test_tool_of_a_real_server_is_discovered_run_and_included_in_prompts(
    shop: ClockService,
) -> None:
    reply = ModelAnswer(tokens=("It is ", "late."))
    session = await shop.submit_turn(
        answer_with_plan("Look at the clock."), answer_with_time_call("Europe/Vilnius"), reply
    )
    (pinned,) = await shop.load_events(session, ToolsSnapshotted)
    assert list(pinned.tools) == ["time_get_current_time"]
    assert pinned.left_out == {"time_convert_time": "among `except`"}
    (returned,) = await shop.load_events(session, ToolReturned)
    assert returned.outcome == "answered"
    bodies = [exchange.body for exchange in shop.provider.exchanges[-3:]]
    assert [bool(body.get("tools")) for body in bodies] == [False, True, False]
    assert '"timezone":"Europe/Vilnius"' in json.dumps(bodies[2]).replace("\\", "")
    prompts = [
        await shop.up.service.get_json(f"/v1/sessions/{session}/calls/1.{number}/prompt")
        for number in (1, 2, 3)
    ]
    assert all(prompt["verified"] for prompt in prompts)
    assert [tool["function"]["name"] for tool in prompts[1]["tools"]] == ["time_get_current_time"]


async def test_tool_error_of_the_server_is_returned_to_the_model(shop: ClockService) -> None:
    session = await shop.submit_turn(
        answer_with_plan("Look."),
        answer_with_time_call("Nowhere/Land"),
        ModelAnswer(tokens=("I cannot say.",)),
    )
    (returned,) = await shop.load_events(session, ToolReturned)
    assert returned.outcome == "failed"
    assert "Nowhere/Land" in returned.text.text


async def test_turn_stream_contains_the_reply_but_no_hidden_calls(
    shop: ClockService,
) -> None:
    session = await shop.up.service.open_session("clockmaker")
    shop.provider.queue_behaviours(
        answer_with_plan("Look."),
        answer_with_time_call("UTC"),
        ModelAnswer(tokens=("It is ", "noon.")),
    )
    turn = await shop.up.service.submit_turn(session, "What time is it?")
    async with shop.up.service.watch_turn(session, turn) as answer:
        received = await answer.read_all()
    *tokens, done = [each for each in received if each.name != "progress"]
    # A watcher that comes late gets both tokens of the reply as one.
    assert ({each.name for each in tokens}, done.name) == ({"token"}, "done")
    assert "".join(each.json["text"] for each in tokens) == "It is noon."


async def test_read_models_contain_every_call_of_a_turn(shop: ClockService) -> None:
    session = await shop.submit_turn(
        answer_with_plan("Look."), answer_with_time_call("UTC"), ModelAnswer(tokens=("Noon.",))
    )
    calls = await shop.up.service.list_calls(session)
    assert [(each["call"], each["kind"]) for each in calls] == [
        ("1.1", "plan"),
        ("1.2", "tactic"),
        ("1.3", "synthesise"),
    ]
