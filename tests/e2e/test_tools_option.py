"""`turnlog up` with a tools file: its tools run, and a faulty file stops the start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import tests.support.servers.mcp_stdio_server
from tests.agent_programs.agent_service import (
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.processes.process_host import ProcessHost, wait_for_exit_code
from tests.support.processes.separate_roles import MODEL_NAME
from tests.support.processes.turnlog_up import run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.tool_events import ToolReturned

pytestmark = pytest.mark.asyncio(loop_scope="session")

SERVER = [str(Path(tests.support.servers.mcp_stdio_server.__file__))]


def write_tools_file(folder: Path, **server: object) -> Path:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"small": server}}, indent=2))
    return file


@pytest.mark.slow("processes of the service start, stop and recover")
async def test_session_runs_a_tool_of_the_file_at_prices_of_the_operator(
    host: ProcessHost, provider: OpenAIServer
) -> None:
    env = {"LENGTH": "${SHOP_LENGTH}"}
    file = write_tools_file(host.folder, command=sys.executable, args=SERVER, env=env)
    prices = host.folder / "prices.json"
    prices.write_text(json.dumps({MODEL_NAME: {"input": 10, "output": 20}}))
    variables = {
        "TURNLOG_TOOLS": str(file),
        "TURNLOG_PRICES": str(prices),
        "SHOP_LENGTH": "18 letters",
    }
    async with run_turnlog_up(host, variables=variables) as up:
        form = {"blueprint": "uderia", "profile": "tool_enabled"}
        opened = await up.service.http.post("/v1/sessions", json=form)
        session = opened.json()["session"]
        provider.queue_behaviours(
            answer_with_plan(("Read its length.", ["small_variable"])),
            answer_with_tool_calls(("small_variable", {"name": "LENGTH"})),
            answer_with_text("It is long."),
        )
        await up.service.run_turn(session, "How long is it?")
        returned = await up.service.wait_for_event(session, ToolReturned)
        assert returned.outcome == "answered"
        assert "18 letters" in str(returned.text)
        for ended in await up.service.list_events_of_type(session, AttemptEnded):
            usage, cost = ended.usage, ended.cost
            amount = 10 * (usage.input_tokens or 0) + 20 * (usage.output_tokens or 0)
            assert (cost.micro_dollars, cost.price) == (amount, "exact")
            assert "+own-" in cost.table


async def test_faulty_tools_file_prevents_the_start_with_its_fields_and_fixes(
    host: ProcessHost,
) -> None:
    file = write_tools_file(host.folder, command="no-such-program", env={"A": "${NOT_SET}"})
    output = host.folder / "output"
    words = ("up", "--data-dir", str(host.folder / "other"), "--tools", str(file))
    process = await host.start_process(*words, "--http", "127.0.0.1:0", output_file=output)
    assert await wait_for_exit_code(process) == 2
    said = " ".join(output.read_text().split())
    assert "mcpServers.small.env.A: the variable NOT_SET is not set" in said
