"""The reading list of a turn is true: a plain turn calls every function that it names."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.docs.code_names import list_code_words, list_table_rows
from tests.docs.doc_pages import ROOT
from tests.support.processes.process_host import run_process_host, wait_for_file
from tests.support.processes.turnlog_up import run_turnlog_up

MAX_FILES = 40

RECORDER = Path(__file__).parent / "call_recorder"


def list_path() -> list[tuple[str, str]]:
    """List file and function of each step of the reading list."""
    page = (ROOT / "docs/a-turn.md").read_text()
    rows = list_table_rows(page.partition("## Read the code of a turn")[2])
    return [
        (file, function)
        for _, files, functions in rows
        for file in list_code_words(files)
        for function in list_code_words(functions)
    ]


def test_turn_is_read_in_at_most_forty_files() -> None:
    assert 20 <= len({file for file, _ in list_path()}) <= MAX_FILES


@pytest.mark.slow("every call of a turn is recorded")
async def test_plain_turn_calls_every_function_of_the_reading_list(tmp_path: Path) -> None:
    called = tmp_path / "called"
    variables = {"PYTHONPATH": str(RECORDER), "CALLED": str(called)}
    async with (
        run_process_host(tmp_path, variables) as host,
        run_turnlog_up(host) as up,
    ):
        session = await up.service.open_session()
        await up.service.run_turn(session, "The first turn pins the prompts.")
        up.process.send_signal(signal.SIGUSR1)
        url, headers = f"/v1/sessions/{session}/turns", {"Accept": "text/event-stream"}
        reply = await up.service.http.post(url, json={"text": "Hi"}, headers=headers)
        assert "event: done" in reply.text
        up.process.send_signal(signal.SIGUSR2)
        functions = set((await wait_for_file(called, up.process)).splitlines())
    assert {f"{file} {function}" for file, function in list_path()} - functions == set()
