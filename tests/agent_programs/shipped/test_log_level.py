"""U29: the level of a process's own log, on the shipped agent platform in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.process_host import run_process_host
from tests.support.processes.turnlog_up import run_turnlog_up

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow("turns of several calls run over HTTP"),
]

VARIABLES = {"TURNLOG_MODEL": "scripted/uderia", "TURNLOG_LOG_FORMAT": "json"}


@pytest.mark.parametrize(("level", "levels"), [("debug", ["debug"]), ("info", [])])
async def test_u29_excluded_turn_is_logged_by_process_at_debug_level_only(
    tmp_path: Path, level: str, levels: list[str]
) -> None:
    said = tmp_path / "turnlog.log"
    told = {**VARIABLES, "TURNLOG_LOG_LEVEL": level}
    async with (
        run_process_host(tmp_path, {}) as host,
        run_turnlog_up(host, output_file=said, variables=told) as up,
    ):
        form = {"blueprint": "uderia", "profile": "llm_only"}
        opened = await up.service.http.post("/v1/sessions", json=form)
        session = opened.json()["session"]
        await up.service.run_turn(session, "And why is that?")
        await up.service.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
        await up.service.run_turn(session, "And why is this?")
    lines = [
        line
        for line in list_log_lines(said, "prompt-parts-excluded")
        if "excluded" in line["rules"]
    ]
    assert [line["level"] for line in lines] == levels


def list_log_lines(said: Path, event: str) -> list[dict[str, Any]]:
    """Return the lines of a process's log, in JSON, that name an event."""
    lines = [json.loads(line) for line in said.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]
