"""The first requests of a service hold its event loop no longer than later ones.

The program is executed and not forked, since a fork of the tests has built all of this already.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.processes.live_service import LiveService, connect_service
from tests.support.processes.process_host import EXIT_TIMEOUT, POLL_INTERVAL, PROGRAM_FOLDER
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import read_keyring
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

MOST_SECONDS = 0.05
"""Processor time of one callback; a first use took 0.04 to 0.3 s, and any other work a fifth."""

COPIES = 10
"""Of the longest shipped blueprint: those of an installation with many."""

PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class MeasuredService:
    """A service, and where it writes what held its event loop."""

    service: LiveService
    holds: Path

    def take_holds(self) -> list[str]:
        """Return what held the loop for too long since this was called last."""
        lines = self.holds.read_text().splitlines()
        os.truncate(self.holds, 0)
        return [line for line in lines if float(line.split()[0]) > MOST_SECONDS]


@asynccontextmanager
async def run_measured_service(
    folder: Path, variables: Mapping[str, str]
) -> AsyncGenerator[MeasuredService]:
    """Execute `turnlog up`; yield it once it accepts work."""
    holds, log, ready = folder / "holds", folder / "up.log", folder / "data/ready.json"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.processes.measured_turnlog", str(holds), "up"),
            *("--data-dir", str(folder / "data"), "--http", "127.0.0.1:0"),
            env={"PATH": f"{PROGRAM_FOLDER}:{os.defpath}", "HOME": str(folder), **variables},
            cwd=PROJECT,
            stdout=output,
            stderr=output,
        )
    try:
        async with asyncio.timeout(EXIT_TIMEOUT):
            while not ready.exists():
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(POLL_INTERVAL)
        addresses = json.loads(ready.read_text())
        keyring = read_keyring(folder / "data")
        async with connect_service(
            addresses["http"], addresses["nats"], keyring=keyring
        ) as service:
            yield MeasuredService(service, holds)
    finally:
        process.terminate()
        await process.wait()


def copy_blueprints(folder: Path) -> Path:
    """Write copies of the longest shipped blueprint to a folder, and return it."""
    for number in range(COPIES):
        copy = folder / f"uderia{number}"
        shutil.copytree(SHIPPED_BLUEPRINTS / "uderia", copy)
        file = copy / "blueprint.yaml"
        file.write_text(file.read_text().replace("blueprint: uderia", f"blueprint: {copy.name}", 1))
    return folder


@pytest.mark.slow("the program is executed, and imports everything")
async def test_first_requests_do_not_hold_the_event_loop(tmp_path: Path) -> None:
    async with OpenAIServer() as provider:
        variables = build_settings(provider) | {
            "TURNLOG_BLUEPRINTS": str(copy_blueprints(tmp_path / "blueprints")),
            "TURNLOG_MODEL_ADAPTER": "direct",
        }
        async with run_measured_service(tmp_path, variables) as measured:
            service, found = measured.service, list[tuple[str, list[str]]]()
            measured.take_holds()  # Those of the start, when nothing is served yet.

            async def request(method: str, path: str, body: object = None) -> httpx.Response:
                answer = await service.http.request(method, path, json=body)
                assert answer.is_success, answer.text
                await service.http.get("/healthz")  # The callback that answered has ended then.
                found.append((f"{method} {path}", measured.take_holds()))
                return answer

            await request("GET", "/")
            opening = {"blueprint": "uderia"}
            opened = await request("POST", "/v1/sessions", opening)
            session = f"/v1/sessions/{opened.json()['session']}"
            await request("POST", f"{session}/turns?wait=60", {"text": "Hi"})
            await request("GET", f"{session}/turns/1/stream")
            for path in ("", "/calls", "/history", "/events", "/turns/1/why", "/calls/1.1/prompt"):
                await request("GET", f"{session}{path}")
            await request("GET", f"{session}/verify")
            await request("POST", "/v1/sessions", {"blueprint": "uderia1"})
            await request("GET", "/v1/blueprints")
            await request("GET", "/openapi.json")
            assert [each for each in found if each[1]] == []
