"""Tool servers that fail say why: in the events, the history, `why` and the worker's log."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

import tests.support.servers.mcp_stdio_server
from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.processes.process_host import POLL_INTERVAL
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.tool_events import ToolReturned
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.tool_specs import LocalServerSpec
from turnlog.services.platform.secret_masking import SECRET_MASK
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.stderr_tail import MAX_BYTES, MAX_LINES, format_last_lines
from turnlog.services.worker.tools.tool_server_types import ToolServerFailure, list_attached_lines

pytestmark = pytest.mark.asyncio(loop_scope="module")

SMALL = (sys.executable, "-I", "-S", str(Path(tests.support.servers.mcp_stdio_server.__file__)))

LAMENT = "ModuleNotFoundError: No module named 'stock'"


def build_blueprint(*command: str, env_from: tuple[str, ...] = ()) -> Blueprint:
    server: dict[str, Any] = {"command": command, "env_from": env_from}
    return build_loop_blueprint(tools={"servers": {"small": server}})


@pytest_asyncio.fixture(loop_scope="module")
async def real(platform: AgentService) -> AsyncIterator[AgentService]:
    """The service with a worker that starts real tool servers."""
    platform.worker.servers = servers = McpToolServers()
    yield platform
    await servers.close()


async def test_server_that_exits_at_start_fails_the_turn_with_its_stderr(
    real: AgentService,
) -> None:
    session = await real.open_session(build_blueprint(*SMALL, "Traceback", LAMENT))
    with capture_logs() as logged:
        turn = await real.submit_turn(session)
    assert turn["status"] == "failed"
    (ended,) = await real.load_events(session, AttemptEnded)
    assert ended.fault is not None
    assert (ended.fault.code, ended.fault.retryable) == ("tools_not_started", False)
    reason, *lines = ended.fault.detail.splitlines()
    assert reason.startswith("small: it ended before it said what it is; correct what it says")
    assert lines == ["Traceback", LAMENT]
    assert ("Traceback", LAMENT) in [each["stderr"] for each in logged if "stderr" in each]
    history = await real.fetch_json(f"/v1/sessions/{session}/history")
    assert turn["detail"] == history["turns"][0]["detail"] == ended.fault.detail
    why = await real.http.get(f"/v1/sessions/{session}/turns/1/why")
    assert LAMENT in why.json()["detail"]


async def test_missing_or_non_executable_program_fails_the_turn_with_the_fix(
    real: AgentService, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    for command, reason in (
        ("no-such-program", "there is no program 'no-such-program'; install it, or write its path"),
        (str(plain), f"{str(plain)!r} is not executable; allow it: chmod +x"),
    ):
        session = await real.open_session(build_blueprint(command))
        assert (await real.submit_turn(session))["status"] == "failed"
        (ended,) = await real.load_events(session, AttemptEnded)
        assert ended.fault is not None
        assert (ended.fault.code, ended.fault.detail) == ("tools_not_started", f"small: {reason}")


async def test_failed_tool_is_recorded_with_stderr_of_its_server_that_no_prompt_includes(
    real: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOCK_WORD", "open sesame")
    session = await real.open_session(build_blueprint(*SMALL, env_from=("STOCK_WORD",)))
    words = {"a": "\x1b[31mthe stock room\x1b[0m is \x07closed", "b": "tried open sesame in vain"}
    await real.complete_turn(
        session,
        answer_with_tool_calls(("small_die", words)),
        answer_with_tool_calls(("small_die", {})),
        answer_with_text("It is closed."),
    )
    first, second = await real.load_events(session, ToolReturned)
    assert first.outcome == "lost"
    reason, *lines = first.detail.splitlines()
    assert "nobody knows whether it was done: small: it ended before it answered" in reason
    assert lines == ["the stock room is closed", f"tried {SECRET_MASK} in vain"]
    assert "stock room" not in second.detail
    results = [each for body in real.bodies for each in body["messages"] if each["role"] == "tool"]
    assert all("last lines" not in each["content"] for each in results)
    why = await real.fetch_json(f"/v1/sessions/{session}/turns/1/why")
    assert any("the stock room is closed" in each["what"] for each in why["consequences"])


async def test_failure_detail_excludes_stderr_of_concurrent_calls() -> None:
    spec, servers = LocalServerSpec(command=SMALL), McpToolServers()
    # Both wait for the same connection, so neither is sent before the other has begun
    failed, other = await asyncio.gather(
        servers.call_tool("small", spec, "die", {"a": "the words of one"}),
        servers.call_tool("small", spec, "lament", {"a": "the words of another"}),
        return_exceptions=True,
    )
    for each in (failed, other):
        assert isinstance(each, ToolServerFailure)
        assert "the words" not in each.detail
        assert "the words of one" in each.server_lines
    with pytest.raises(ToolServerFailure, match="the words of one"):
        await servers.call_tool("small", spec, "die", {"a": "the words of one"})
    await servers.close()


async def test_tool_timeout_carries_stderr_of_its_server(tmp_path: Path) -> None:
    spec, begun, servers = LocalServerSpec(command=SMALL), tmp_path / "begun", McpToolServers()
    limit = asyncio.timeout(None)

    async def end_when_begun() -> None:
        while not begun.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(POLL_INTERVAL)
        limit.reschedule(asyncio.get_running_loop().time())

    async def call_until_ended() -> None:
        arguments = {"words": "waiting for the stock room", "file": str(begun)}
        async with limit:
            await servers.call_tool("small", spec, "mourn", arguments)

    ending = asyncio.create_task(end_when_begun())
    with pytest.raises(TimeoutError) as late:
        await call_until_ended()
    assert list_attached_lines(late.value) == ("waiting for the stock room",)
    await ending
    await servers.close()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2 was wrong", f"password={SECRET_MASK} was wrong"),
        ('{"api_key": "a b"}', f'{{"api_key": {SECRET_MASK}}}'),
        ("Authorization: Bearer abcdef", f"Authorization: {SECRET_MASK} {SECRET_MASK}"),
        ("to postgres://me:word@host/db", f"to postgres://{SECRET_MASK}@host/db"),
        ("key sk-0123456789abcdef is bad", f"key {SECRET_MASK} is bad"),
        ("the key is given-value.", f"the key is {SECRET_MASK}."),
        ("code 4711 and 47110", f"code {SECRET_MASK} and 47110"),
        ("import error: no module", "import error: no module"),
    ],
)
async def test_secrets_are_masked_in_server_stderr(text: str, shown: str) -> None:
    assert format_last_lines(text, ("given-value", "4711", "no")) == (shown,)


async def test_only_last_lines_of_stderr_are_shown_and_no_part_of_a_secret() -> None:
    lines = format_last_lines("\n".join(f"line {n} \u202e\x00" for n in range(1_000)))
    assert lines == tuple(f"line {n}" for n in range(1_000 - MAX_LINES, 1_000))
    wide = format_last_lines("\n".join(["w" * 299] * 100))
    assert 0 < len("\n".join(wide).encode()) <= MAX_BYTES
    secret = "s" * 500
    (cut,) = format_last_lines(f"{secret} " * 3 + "x " * 244 + secret, [secret])
    assert "s" not in cut
