"""The shipped `uderia` with the tools of an operator's own servers, configured in one file.

The servers are real programs. What the file says beyond names and filters, such as a secret, is in
no event and no blob.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import tests.support.servers.mcp_stdio_server
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from turnlog.events.model.tool_events import ToolCalled, ToolReturned, ToolsSnapshotted
from turnlog.projections.prompt.planned_output import SCHEMA_INSTRUCTION
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.extensions.mcp_servers_file import ToolsFile, load_tools_file
from turnlog.services.worker.tools.mcp_servers import McpToolServers

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow("turns of several calls run over HTTP"),
]

SECRET = "sk-of-the-operator"

SERVER_FILE = str(Path(tests.support.servers.mcp_stdio_server.__file__))

SERVERS: dict[str, dict[str, Any]] = {
    "small": {
        "command": sys.executable,
        "args": ["-I", "-S", SERVER_FILE],
        "env": {"SHOP_TOKEN": "${OPERATOR_TOKEN}", "LENGTH": "18 letters"},
        "except": ["hang", "die", "lament", "mourn"],
        "system_name": "the shop in Holm",
    },
    "other": {"command": sys.executable, "args": [SERVER_FILE], "disabled": True},
}


def write_tools_file(file: Path, servers: object) -> ToolsFile:
    file.write_text(json.dumps({"mcpServers": servers}))
    return load_tools_file(file)


@pytest_asyncio.fixture(loop_scope="module")
async def configured(
    platform: AgentService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AgentService]:
    """The service with a tools file, read by gateway and worker as their processes do."""
    monkeypatch.setenv("OPERATOR_TOKEN", SECRET)
    tools = write_tools_file(tmp_path / "mcp.json", SERVERS)
    platform.worker.servers = servers = McpToolServers(tools=tools)
    async with platform.gateway.start_another_gateway(tools=tmp_path / "mcp.json") as gateway:
        yield replace(platform, gateway=gateway)
    await servers.close()


def complete_objects(schema: dict[str, Any]) -> bool:
    """Return whether every object has its properties, as strict model servers demand."""
    return schema["type"] != "object" or "properties" in schema


async def test_tools_of_a_file_of_another_program_run_on_a_strict_model_server(
    platform: AgentService, tmp_path: Path
) -> None:
    program = {key: SERVERS["small"][key] for key in ("command", "args")}
    foreign = {"type": "stdio", "cwd": str(tmp_path), "autoApprove": ["who"], "trust": False}
    file = tmp_path / "mcp.json"
    tools = write_tools_file(file, {"Holm.Shop/v2": {**program, **foreign, "timeout": 60_000}})
    platform.worker.servers = servers = McpToolServers(tools=tools)
    async with platform.gateway.start_another_gateway(tools=file) as gateway:
        service = replace(platform, gateway=gateway)
        session = await service.open_shipped_session("uderia", profile="tool_enabled")
        await service.complete_turn(
            session,
            answer_with_plan(("Ask who it is.", ["holm-shop-v2_who"])),
            answer_with_tool_calls(("holm-shop-v2_who", {})),
            answer_with_text("It is known."),
            text="Who is it?",
        )
    await servers.close()
    (returned,) = await service.load_events(session, ToolReturned)
    assert (returned.tool, returned.outcome) == ("holm-shop-v2_who", "answered")
    offered = [tool["function"] for body in service.bodies for tool in body.get("tools", ())]
    assert [each["name"] for each in offered] == ["holm-shop-v2_who"]
    assert all(complete_objects(each["parameters"]) for each in offered)
    assert "Tools of Holm.Shop/v2:\n" in service.bodies[0]["messages"][0]["content"]


ODD_TOOLS = {
    "search.docs": "small_search_docs",
    "repos/list files": "small_repos_list_files",
    "ünï_code": "small_uni_code",
    f"get_{'x' * 70}": f"small_get_{'x' * 45}_53d6fb5f",
}
"""Names of tools that no model takes, each with its alias."""


@pytest.mark.parametrize("tool", ODD_TOOLS)
async def test_tool_whose_name_no_model_takes_is_offered_by_an_alias_and_shown_by_its_name(
    platform: AgentService, tmp_path: Path, tool: str
) -> None:
    schemas = json.dumps({name: {"type": "object"} for name in ODD_TOOLS})
    server = {**SERVERS["small"], "env": {"EXTRA_TOOLS": schemas}, "only": [*ODD_TOOLS]}
    tools = write_tools_file(tmp_path / "mcp.json", {"small": {**server, "approve": [tool]}})
    platform.worker.servers = servers = McpToolServers(tools=tools)
    name, alias = f"small_{tool}", ODD_TOOLS[tool]
    async with platform.gateway.start_another_gateway(tools=tmp_path / "mcp.json") as gateway:
        service = replace(platform, gateway=gateway)
        session = await service.open_shipped_session("uderia", profile="tool_enabled")
        service.provider.queue_behaviours(
            answer_with_plan(("Ask it.", [alias])),
            answer_with_tool_calls((alias, {})),
            answer_with_text("It is known."),
        )
        await service.http.post(f"/v1/sessions/{session}/turns", json={"text": "Who is it?"})
        path, shown = f"/v1/sessions/{session}/turns/1/approvals/1", list[str]()
        async with service.watch_turn(session) as watched:
            async for event in watched.iterate_events():
                if event.name == "approval":
                    opened = (await service.fetch_json(f"/v1/sessions/{session}"))["open"]
                    shown += [each["tool"] for each in opened["approvals"]]
                    await service.http.post(path, json={"decision": "approve"})
        history = await service.fetch_json(f"/v1/sessions/{session}/history")
    await servers.close()
    assert shown == [name]
    assert [(use["tool"], use["outcome"]) for use in history["turns"][0]["tools"]] == [
        (name, "answered")
    ]
    assert service.list_offered_tools() == [[], [alias], []]
    (called,) = await service.load_events(session, ToolCalled)
    assert (called.tool, called.alias) == (name, alias)
    (snapshot,) = await service.load_events(session, ToolsSnapshotted)
    assert snapshot.tools[name].tool == tool
    assert f"- {alias}: " in service.bodies[0]["messages"][0]["content"]


async def run_turn_with_secret(platform: AgentService, session: str) -> str:
    """Run a turn whose tool returns a variable of its program; return the tool's text."""
    await platform.complete_turn(
        session,
        answer_with_plan(("Read the variable.", ["small_variable"])),
        answer_with_tool_calls(("small_variable", {"name": "LENGTH"})),
        answer_with_text("It has."),
        text="Has the shop its variables?",
    )
    (*_, returned) = await platform.load_events(session, ToolReturned)
    return str(returned.model_dump()["text"]["text"])


async def test_tools_of_configured_server_are_described_offered_and_run(
    configured: AgentService,
) -> None:
    session = await configured.open_shipped_session("uderia", profile="tool_enabled")
    assert "18" in await run_turn_with_secret(configured, session)
    system = (await configured.fetch_prompt(session, "1.1"))["messages"][0]["content"]
    (_, tools) = system.split("# Tools\n\n")
    (tools, _) = tools.split(f"\n\n{SCHEMA_INSTRUCTION}")
    assert tools.splitlines() == [
        "Tools of the shop in Holm:",
        "- small_who: ",
        "- small_listed: ",
        "- small_variable: ",
    ]
    assert configured.list_offered_tools() == [[], ["small_variable"], []]
    (snapshot,) = await configured.load_events(session, ToolsSnapshotted)
    left_out = ("small_hang", "small_die", "small_lament", "small_mourn")
    assert snapshot.left_out == dict.fromkeys(left_out, "among `except`")


async def test_server_endpoint_and_secret_are_in_no_event_or_blob(
    configured: AgentService,
) -> None:
    session = await configured.open_shipped_session("uderia", profile="tool_enabled")
    await run_turn_with_secret(configured, session)
    events = b"".join(each.stored for each in await configured.load_recorded_events(session))
    blobs = b"".join(configured.backend.blobs.blobs.values())
    for private in (SECRET, "OPERATOR_TOKEN", SERVER_FILE):
        assert private.encode() not in events + blobs


async def test_session_continues_after_operator_removes_its_tool_server(
    configured: AgentService, tmp_path: Path
) -> None:
    session = await configured.open_shipped_session("uderia", profile="tool_enabled")
    await run_turn_with_secret(configured, session)
    left = write_tools_file(tmp_path / "left.json", {"post": SERVERS["small"]})
    configured.worker.servers = McpToolServers(tools=left)
    look = answer_with_tool_calls(("small_variable", {"name": "LENGTH"}))
    await configured.complete_turn(
        session,
        answer_with_plan(("Read the variable.", ["small_variable"])),
        *(look, look),
        answer_with_text("It cannot be read."),
        text="And now?",
    )
    (*_, returned) = await configured.load_events(session, ToolReturned)
    assert returned.outcome == "failed"
    detail = "small: the worker's tools file has no server `small`"
    assert detail in returned.model_dump()["text"]["text"]


TASKS = {
    "tool_enabled": "plan",
    "llm_only": "talk it through",
    "llm_condensed": "talk it through",
    "rag_focused": "answer from the documents",
    "genie": "coordinate",
}

UDERIA = BlueprintFolders().load_blueprint("uderia")


@pytest.mark.parametrize("profile", UDERIA.profiles)
async def test_session_opens_in_the_requested_profile_and_completes_a_turn(
    configured: AgentService, profile: str
) -> None:
    session = await configured.open_shipped_session("uderia", profile=profile)
    view = await configured.fetch_json(f"/v1/sessions/{session}")
    assert (view["profile"], view["phase"]) == (profile, "ideate")
    plans = UDERIA.profiles[profile].program == "tools"
    answers = (answer_with_plan(),) if plans else ()
    await configured.complete_turn(session, *answers, answer_with_text("Yes."), text="Hello?")
    calls = await configured.list_calls(session)
    assert {each["profile"] for each in calls} == {profile}
    prompt = await configured.fetch_prompt(session, calls[0]["call"])
    assert f"# Your task now: {TASKS[profile]}" in prompt["messages"][0]["content"]
