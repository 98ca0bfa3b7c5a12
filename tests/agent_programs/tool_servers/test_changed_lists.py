"""A tool server whose list changes while sessions run: pinned only where a blueprint allows it.

The server is a real one over streamable HTTP, in the process of the test. The fixture of the
service verifies and reproduces every prompt of these sessions, before and after the change.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import tests.support.servers.mcp_stdio_server
from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.processes.process_host import POLL_INTERVAL
from tests.support.servers.changing_mcp_server import ChangingMcpServer, run_changing_server
from turnlog.events.async_tasks import run_tasks
from turnlog.events.model.tool_events import (
    ToolListChanged,
    ToolReturned,
    ToolsSnapshotted,
)
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.tool_specs import (
    LocalServerSpec,
    ServerSpec,
)
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.tool_snapshots import ToolSnapshots

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow("turns run over HTTP with a real tool server"),
]

DONE = answer_with_text("Done.")


class HeardServers(McpToolServers):
    """Tool servers that say whether a list is out of date."""

    def has_list(self, server: str, spec: ServerSpec) -> bool:
        return self._find_cached_offers(server, spec) is not None


@pytest_asyncio.fixture(loop_scope="module")
async def shop() -> AsyncIterator[ChangingMcpServer]:
    async with run_changing_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def served(platform: AgentService) -> AsyncIterator[AgentService]:
    """The service, whose worker reaches real servers."""
    platform.worker.servers = HeardServers()
    platform.worker.tool_snapshots = ToolSnapshots()
    yield platform
    await platform.worker.tool_snapshots.close()
    await platform.worker.servers.close()


async def restart_worker(served: AgentService) -> None:
    """Let the worker forget its connections and lists, as a new process has none."""
    await served.worker.tool_snapshots.close()
    await served.worker.servers.close()
    served.worker.servers = HeardServers()
    served.worker.tool_snapshots = ToolSnapshots()


def build_shop_blueprint(shop: ChangingMcpServer, word: str | None, **options: Any) -> Blueprint:  # noqa: ANN401
    servers = {"far": {"url": shop.url, **options}}
    changed = {} if word is None else {"changed_lists": word}
    return build_loop_blueprint(
        blueprint=f"agent-{word or 'default'}", tools={"servers": servers, **changed}
    )


def get_servers(served: AgentService) -> HeardServers:
    assert isinstance(served.worker.servers, HeardServers)
    return served.worker.servers


async def report_change(served: AgentService, shop: ChangingMcpServer, spec: ServerSpec) -> None:
    """Change the list of the server, and wait until the worker has heard of it."""
    shop.server.remove_tool("pay")
    shop.put_tool("look", "Looks for a thing in all shops.")
    shop.put_tool("saw", "Saws wood.")
    await wait_for_word(get_servers(served), shop, spec)


async def wait_for_word(servers: HeardServers, shop: ChangingMcpServer, spec: ServerSpec) -> None:
    async with asyncio.timeout(60):
        while servers.has_list("far", spec):
            await shop.report_change()
            await asyncio.sleep(POLL_INTERVAL)


@pytest.mark.parametrize("learns", ["by a word of the server", "at the next connection"])
async def test_changed_list_is_pinned_for_the_next_turn_of_a_session_whose_blueprint_allows_it(
    served: AgentService, shop: ChangingMcpServer, learns: str
) -> None:
    kind = build_shop_blueprint(shop, "pin")
    session = await served.open_session(kind)
    await served.complete_turn(session, DONE)
    assert kind.tools
    await report_change(served, shop, kind.tools.servers["far"])
    if learns == "at the next connection":
        await restart_worker(served)
    await served.complete_turn(session, DONE)
    await served.complete_turn(session, DONE)
    assert served.list_offered_tools() == [
        ["far_look", "far_pay"],
        *(["far_look", "far_saw"],) * 2,
    ]
    described = [body["tools"][0]["function"]["description"] for body in served.bodies]
    assert described == ["Looks for a thing.", *("Looks for a thing in all shops.",) * 2]
    before, after = await served.load_events(session, ToolsSnapshotted)
    (changed,) = await served.load_events(session, ToolListChanged)
    assert changed.outcome == "pinned"
    assert changed.digest == after.digest
    assert changed.added == {"far_saw": after.tools["far_saw"].digest}
    assert changed.removed == {"far_pay": before.tools["far_pay"].digest}
    assert [*changed.changed] == ["far_look"]
    assert changed.changed["far_look"].before == before.tools["far_look"].digest
    assert changed.changed["far_look"].after == after.tools["far_look"].digest
    names = await served.list_event_names(session)
    at = names.index("tool-list-changed")
    assert names[at + 1] == "tools-snapshotted"
    assert names[:at].count("turn-submitted") == 2


async def test_why_and_diff_name_the_list_that_each_call_had(
    served: AgentService, shop: ChangingMcpServer
) -> None:
    kind = build_shop_blueprint(shop, "pin")
    session = await served.open_session(kind)
    await served.complete_turn(session, DONE)
    assert kind.tools
    await report_change(served, shop, kind.tools.servers["far"])
    await served.complete_turn(session, DONE)
    recorded = await served.load_recorded_events(session)
    first, second = (each.sequence for each in recorded if isinstance(each.event, ToolsSnapshotted))
    for call, pinned_at in (("1.1", first), ("2.1", second)):
        assert (await served.fetch_prompt(session, call))["verified"]
        path = f"/v1/sessions/{session}/calls/{call}/why"
        why = await served.fetch_json(path)
        tools = [each for each in why["parts"] if each["part"]["role"] == "tools"]
        assert tools
        assert {cause["sequence"] for each in tools for cause in each["by"]} == {pinned_at}
    diff = await served.fetch_json(f"/v1/sessions/{session}/calls/1.1/diff/2.1")
    causes = {
        each["layer"]: [cause["what"] for cause in each["because"]] for each in diff["changes"]
    }
    assert {name for name in causes if name.startswith("far_")} == {
        *("far_look", "far_pay", "far_saw")
    }
    assert all(causes[name] == ["pinned"] for name in causes if name.startswith("far_"))


@pytest.mark.parametrize("word", [None, "keep"])
async def test_session_keeps_its_list_otherwise_and_the_change_is_recorded_once(
    served: AgentService, shop: ChangingMcpServer, word: str | None
) -> None:
    kind = build_shop_blueprint(shop, word)
    session = await served.open_session(kind)
    await served.complete_turn(session, DONE)
    assert kind.tools
    await report_change(served, shop, kind.tools.servers["far"])
    await served.complete_turn(session, DONE)
    await restart_worker(served)
    await served.complete_turn(session, DONE)
    assert served.list_offered_tools() == [["far_look", "far_pay"]] * 3
    assert len(await served.load_events(session, ToolsSnapshotted)) == 1
    (changed,) = await served.load_events(session, ToolListChanged)
    assert changed.outcome == "not_pinned"
    assert [[*each] for each in (changed.added, changed.removed, changed.changed)] == [
        ["far_saw"],
        ["far_pay"],
        ["far_look"],
    ]


async def test_two_sessions_of_one_server_follow_their_own_blueprints(
    served: AgentService, shop: ChangingMcpServer
) -> None:
    kinds = [build_shop_blueprint(shop, word) for word in ("pin", "keep")]
    sessions = [await served.open_session(kind) for kind in kinds]
    for session in sessions:
        await served.complete_turn(session, DONE)
    assert kinds[0].tools
    await report_change(served, shop, kinds[0].tools.servers["far"])
    for session in sessions:
        await served.complete_turn(session, DONE)
    changed = [await served.load_events(session, ToolListChanged) for session in sessions]
    assert [[each.outcome for each in some] for some in changed] == [["pinned"], ["not_pinned"]]
    assert served.list_offered_tools()[2:] == [["far_look", "far_saw"], ["far_look", "far_pay"]]
    assert shop.server.list_count == 2


@pytest.mark.parametrize("word", ["pin", "keep"])
async def test_turn_in_progress_keeps_its_list_and_a_tool_that_is_gone_gives_one_line(
    served: AgentService, shop: ChangingMcpServer, word: str
) -> None:
    kind = build_shop_blueprint(shop, word)
    session = await served.open_session(kind)

    async def change_list(what: str) -> str:
        shop.server.remove_tool("pay")
        await shop.report_change()
        return what

    shop.server.remove_tool("look")
    shop.server.add_tool(change_list, "look")
    calls = [answer_with_tool_calls((f"far_{n}", {"what": "it"})) for n in ("look", "pay")]
    await served.complete_turn(session, *calls, DONE)
    assert served.list_offered_tools() == [["far_pay", "far_look"]] * 3
    (looked, paid) = await served.load_events(session, ToolReturned)
    assert (looked.outcome, paid.outcome) == ("answered", "failed")
    told = served.bodies[-1]["messages"][-1]["content"]
    assert "pay" in told
    assert len(told.splitlines()) == 1
    await served.complete_turn(session, calls[1], DONE)
    (_, _, again) = await served.load_events(session, ToolReturned)
    told = served.bodies[-1]["messages"][-1]["content"]
    assert again.outcome == {"pin": "refused", "keep": "failed"}[word]
    gone = {"pin": "no tool 'far_pay' was offered", "keep": "far has no tool pay any more"}[word]
    assert gone in told


async def test_turn_goes_on_with_its_list_while_its_server_is_down(
    served: AgentService, shop: ChangingMcpServer
) -> None:
    kind = build_shop_blueprint(shop, "pin")
    session = await served.open_session(kind)
    await served.complete_turn(session, DONE)
    await restart_worker(served)
    await shop.stop()
    await served.complete_turn(session, DONE)
    assert served.list_offered_tools() == [["far_look", "far_pay"]] * 2
    assert await served.load_events(session, ToolListChanged) == []


async def test_list_without_a_tool_that_a_person_must_approve_is_never_pinned(
    served: AgentService, shop: ChangingMcpServer
) -> None:
    kind = build_shop_blueprint(shop, "pin", approve=["pay"])
    session = await served.open_session(kind)
    await served.complete_turn(session, DONE)
    assert kind.tools
    shop.put_tool("pay-now", "Pays for it.")
    await report_change(served, shop, kind.tools.servers["far"])
    await served.complete_turn(session, DONE)
    assert served.list_offered_tools()[1] == ["far_look", "far_pay"]
    assert len(await served.load_events(session, ToolsSnapshotted)) == 1


async def test_server_that_reports_changes_all_the_time_is_asked_once_a_turn(
    served: AgentService, shop: ChangingMcpServer
) -> None:
    reported = 0

    async def report_changes() -> None:
        nonlocal reported
        while True:
            await shop.report_change()
            reported += 1
            await asyncio.sleep(0.001)

    session = await served.open_session(build_shop_blueprint(shop, "pin"))
    await served.complete_turn(session, DONE)
    async with run_tasks(report_changes()):
        for _ in range(5):
            await served.complete_turn(session, DONE)
        while reported < 1_000:  # noqa: ASYNC110 - nothing else ends then
            await asyncio.sleep(POLL_INTERVAL)
        await served.complete_turn(session, DONE)
    assert shop.server.list_count <= 7
    assert await served.load_events(session, ToolListChanged) == []


STDIO_SERVER = str(Path(tests.support.servers.mcp_stdio_server.__file__))


async def test_many_notifications_of_the_older_protocol_lead_to_one_request() -> None:
    servers = McpToolServers()
    tools = 'EXTRA_TOOLS={"grow": {"type": "object"}}'
    spec = LocalServerSpec(command=("env", tools, sys.executable, "-I", "-S", STDIO_SERVER))
    first = await servers.list_offers("small", spec)
    await servers.call_tool("small", spec, "grow", {"times": "2000"})
    offers = await servers.list_offers("small", spec)
    again = await servers.list_offers("small", spec)
    listed = await servers.call_tool("small", spec, "listed", {})
    await servers.close()
    assert {each.tool for each in offers} - {each.tool for each in first} == {"grown"}
    assert again == offers
    assert listed.text == "2"
