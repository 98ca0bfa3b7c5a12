"""Results larger than a message of the log, from a real MCP server to the shipped `uderia`."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import (
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.processes.process_host import ProcessHost
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.codec import MAX_EVENT_BYTES
from turnlog.events.model.tool_events import ToolReturned
from turnlog.projections.audit.export.bundle_format import build_blob_path
from turnlog.services.bundle.bundle_unpacking import unpack_bundle

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service and a tool server start"),
]

SERVER = ("-m", "tests.support.servers.mcp_http_server")

UNWITNESSED = 6
"""Exit code of a bundle's verifier that found nothing wrong."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def large_up(host: ProcessHost) -> AsyncIterator[TurnlogUp]:
    file = host.folder / "mcp.json"
    program = {"command": sys.executable, "args": [*SERVER, "--stdio"], "cwd": str(Path.cwd())}
    # Five megabytes take a slow machine longer than the 30 s that a call may take by default.
    server = program | {"timeout": 300}
    file.write_text(json.dumps({"mcpServers": {"far": server}}))
    # No process dies in these tests; a busy machine must not look like one that does.
    variables = {"TURNLOG_TOOLS": str(file), "TURNLOG_ACK_WAIT": "60"}
    async with run_turnlog_up(host, variables=variables) as up:
        yield up


async def run_rows_turn(
    up: TurnlogUp, provider: OpenAIServer, count: int
) -> tuple[str, ToolReturned]:
    """Run a turn whose tool returns so many rows of a hundred characters."""
    form = {"blueprint": "uderia", "profile": "tool_enabled"}
    session = (await up.service.http.post("/v1/sessions", json=form)).json()["session"]
    provider.queue_behaviours(
        answer_with_plan(("Read the rows.", ["far_rows"])),
        answer_with_tool_calls(("far_rows", {"count": count, "width": 80})),
        answer_with_text("They are many."),
    )
    turn = await up.service.run_turn(session, "How many are there?")
    assert turn["status"] == "completed", str(turn)
    return session, await up.service.wait_for_event(session, ToolReturned)


@pytest.mark.parametrize("count", [10_000, 50_000], ids=["1 MB", "5 MB"])
async def test_result_larger_than_a_message_is_condensed_and_its_whole_can_be_read_and_verified(
    large_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path, count: int
) -> None:
    session, returned = await run_rows_turn(large_up, provider, count)
    service = large_up.service
    assert (returned.outcome, returned.treatment, returned.result) == (
        "answered",
        "condensed",
        None,
    ), returned.detail
    assert returned.whole is not None
    size, digest = returned.whole.size, returned.whole.digest
    assert size > MAX_EVENT_BYTES
    shown = str(provider.exchanges[-1].body)
    assert f"{count} rows with columns id, name; the first 3:" in shown
    assert f"(only this much of {size} bytes; the whole is kept as {digest})" in shown

    path = f"/v1/sessions/{session}/calls/{returned.call}/tools/{returned.id}"
    found = await service.get_json(path)
    assert (found["digest"], found["result"]) == (digest, None)
    assert found["whole"] == {"digest": digest, "size": size}
    whole = await service.http.get(f"/v1/blobs/{digest}")
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert len(whole.content) == size
    assert len(whole.json()) == count

    provider.queue_behaviours(answer_with_plan(), answer_with_text("Still many."))
    await service.run_turn(session, "And now?")
    report = await service.get_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "reproduced"), report
    why = await service.get_json(f"/v1/sessions/{session}/calls/1.3/why")
    parts: list[dict[str, Any]] = [each["part"] for each in why["parts"]]
    results = [each for each in parts if each["layer"] == "step_results"]
    assert [(each["treatment"], each["rule"]) for each in results] == [("condensed", "distil")]

    exported = await service.http.get(f"/v1/sessions/{session}/export?format=bundle")
    packed, folder = tmp_path / "bundle.zip", tmp_path / "bundle"
    packed.write_bytes(exported.content)
    assert digest in unpack_bundle(packed, folder).blobs
    assert (folder / build_blob_path(digest)).read_bytes() == whole.content
    assert verify_bundle(folder) == UNWITNESSED


def verify_bundle(folder: Path) -> int:
    """Run the verifier of a bundle, and return its exit code."""
    words = [sys.executable, "-I", "verify.py"]
    return run(words, cwd=folder, capture_output=True, check=False).returncode
