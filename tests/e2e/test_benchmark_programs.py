"""What the benchmarks ask with works against a running service and the floor program."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures.floor import run_floor
from benchmarks.support.http_caller import connect_caller
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("processes of the service start, stop and recover"),
]


async def run_two_turns(http: str) -> None:
    async with connect_caller(http) as caller:
        opened = await caller.request_json("POST", "/v1/sessions", {"blueprint": "assistant"})
        for text in ("First.", "Second."):
            await caller.run_turn(str(opened["session"]), text)
            await caller.read_stream_end()


async def test_turns_of_a_service_are_measured(up: TurnlogUp, provider: OpenAIServer) -> None:
    provider.queue_behaviours(ModelAnswer(tokens=("One.",)), ModelAnswer(tokens=("Two.",)))
    await run_two_turns(str(up.service.http.base_url))


async def test_turns_of_the_floor_program_are_measured(tmp_path: Path) -> None:
    async with run_floor(tmp_path) as floor:
        await run_two_turns(floor.http)
