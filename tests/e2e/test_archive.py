"""Closed sessions are moved out of NATS into files, and everything about them goes on."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_erased_words import add_turns, erase, run_turns
from tests.e2e.test_erasure_ways import read_every_route
from tests.e2e.test_sealed_sessions import list_files_with, run_verifier
from tests.support.processes.process_host import ProcessHost, run_turnlog
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.subjects import SESSIONS_STREAM
from turnlog.services.bundle.bundle_unpacking import unpack_bundle

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts several times"),
]

SECRET = "qvxarchived"

MOMENT = re.compile(r'"(at|seconds)":("[^"]*"|[0-9.e-]+)')
"""When an answer was given, and how long it took."""


def read_lines(answer: str) -> list[str]:
    """Return the lines of an answer; how far a verification is comes as often as that takes."""
    lines = MOMENT.sub("", answer).splitlines()
    return [line for line in lines if '"kind":"progress"' not in line]


@asynccontextmanager
async def start_service(host: ProcessHost) -> AsyncGenerator[TurnlogUp]:
    async with run_turnlog_up(host, variables={"TURNLOG_SEALING": "on"}) as up:
        yield up


async def archive_sessions(host: ProcessHost, *more: str) -> dict[str, Any]:
    """Run the command on the data directory, for everything that is closed."""
    where = ("--data-dir", str(host.folder / "data"), "--closed-before", "0s", "-o", "json")
    code, output, errors = await run_turnlog("archive", "sessions", *where, *more)
    assert code == 0, errors
    return dict(json.loads(output))


async def close(up: TurnlogUp, session: str) -> None:
    answer = await up.service.http.post(f"/v1/sessions/{session}/close", json={"reason": "done"})
    assert answer.is_success, answer.text


async def find_in_stream(up: TurnlogUp, session: str) -> bool:
    """Return whether NATS itself has an event of a session."""
    request = json.dumps({"last_by_subj": f"session.default.{session}.>"}).encode()
    answer = await up.service.nats.connection.send_request(
        f"$JS.API.DIRECT.GET.{SESSIONS_STREAM}", request
    )
    return (answer.headers or {}).get("Status") != "404"


async def test_archived_session_answers_every_route_as_before_and_can_be_erased(
    host: ProcessHost, provider: OpenAIServer, tmp_path: Path
) -> None:
    async with start_service(host) as up:
        session = await run_turns(up, provider, f"I am {SECRET}", "and the tide?")
        running = await run_turns(up, provider, "I stay")
        await add_turns(up, provider, session, "and the berth?")
        end = (await up.service.get_json(f"/v1/sessions/{session}"))["sequence"]
        fork = await up.service.http.post(f"/v1/sessions/{session}/fork", json={"at": end})
        await close(up, session)
        for each in (session, running, fork.json()["session"]):
            await up.service.list_calls(each)
        before = await read_every_route(up, session)
        heads, data = tmp_path / "heads.json", ("--data-dir", str(host.folder / "data"))
        code, _, errors = await run_turnlog("checkpoint", str(heads), *data)
        assert code == 0, errors
    planned = await archive_sessions(host, "--dry-run")
    assert (planned["moved"], planned["sessions"]) == (False, [session])
    moved = await archive_sessions(host)
    assert moved == planned | {"moved": True}
    assert (await archive_sessions(host))["sessions"] == []
    async with start_service(host) as up:
        assert not await find_in_stream(up, session)
        assert await find_in_stream(up, running)
        after = await read_every_route(up, session)
        for path, answer in before.items():
            assert read_lines(after[path]) == read_lines(answer), path
        await check_whole_log(up, "--checkpoint", str(heads))
        await add_turns(up, provider, running, "and still here")
        await add_turns(up, provider, fork.json()["session"], "I go on from there")
        refused = await up.service.http.post(f"/v1/sessions/{session}/turns", json={"text": "no"})
        assert refused.json()["code"] == "session-closed"
        forked = await up.service.http.post(f"/v1/sessions/{session}/fork", json={"at": end})
        await add_turns(up, provider, forked.json()["session"], "from the archive")
        receipt = await erase(up, session)
        assert receipt["status"] == "erased", receipt
        report = await up.service.get_json(f"/v1/sessions/{session}/verify")
        assert (report["verified"], report["reproduction"]) == (True, "erased"), report
        exported = await up.service.http.get(f"/v1/sessions/{session}/export?format=bundle")
        (tmp_path / "bundle.zip").write_bytes(exported.content)
        unpack_bundle(tmp_path / "bundle.zip", tmp_path / "bundle")
        assert run_verifier(tmp_path / "bundle") == (6, "UNWITNESSED")
    # What came behind the archived events goes there too, with the forks, erased with it.
    assert session in (await archive_sessions(host))["sessions"]
    assert list(list_files_with(host.folder / "data", SECRET.encode())) == []
    async with start_service(host) as up:
        await check_whole_log(up)
        history = await up.service.get_json(f"/v1/sessions/{session}/history")
        assert {turn["text"] for turn in history["turns"]} == {None}


async def check_whole_log(up: TurnlogUp, *more: str) -> None:
    """Verify everything, from the log alone; nothing counts as missing."""
    where = ("--url", str(up.service.http.base_url))
    code, output, errors = await run_turnlog("verify", "--all", *where, *more)
    assert code == 0, output + errors
    ready = await up.service.http.get("/readyz")
    assert ready.status_code == 200, ready.text
