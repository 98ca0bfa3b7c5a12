"""The receiver of webhooks of the documentation as a process, and a service that may be killed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.docs.doc_pages import ROOT, list_blocks
from tests.support.processes.live_service import LiveService, connect_service
from tests.support.processes.process_host import (
    POLL_INTERVAL,
    ProcessHost,
    find_free_port,
    stop_cleanly,
    wait_for_file,
)
from tests.support.processes.turnlog_process import TurnlogProcess
from tests.support.processes.turnlog_up import read_keyring

PAGE = ROOT / "docs/webhooks.md"

WAIT_SECONDS = 90


def create_sample_receiver(folder: Path) -> SampleReceiver:
    """Write the program of the page, and return it as a receiver at a free port."""
    program = folder / "receiver.py"
    blocks = (each.code for each in list_blocks(PAGE) if each.language == "python")
    program.write_text("\n".join(blocks))
    return SampleReceiver(program, find_free_port())


@dataclass
class SampleReceiver:
    """The receiver of the documentation as a process of its own."""

    program: Path
    port: int
    secret: str = ""
    printed: list[str] = field(default_factory=list[str])
    """What it printed, over all of its lives: position, session and type of each delivery."""

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[asyncio.subprocess.Process]:
        """Run it while the body runs, then kill it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(self.program),
            str(self.port),
            stdout=asyncio.subprocess.PIPE,
            env={"WEBHOOK_SECRET": self.secret},
        )
        reading = asyncio.create_task(self._read(process))
        try:
            await self._wait_until_listening()
            yield process
        finally:
            process.kill()
            await process.wait()
            await reading

    async def _wait_until_listening(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except ConnectionRefusedError:
                    await asyncio.sleep(POLL_INTERVAL)
                else:
                    return writer.close()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.printed.append(line.decode().strip())

    def list_positions(self, session: str) -> list[int]:
        """Return the positions that it took of a session, each where it came first."""
        lines = (line.split() for line in self.printed)
        return list(dict.fromkeys(int(place) for place, of, _ in lines if of == session))

    async def wait_for(self, session: str, positions: list[int]) -> None:
        """Wait until it has taken these positions of a session."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not set(positions) <= set(self.list_positions(session)):  # noqa: ASYNC110 - another process prints
                await asyncio.sleep(POLL_INTERVAL)


@dataclass(frozen=True)
class RunningService:
    """A running `turnlog up`."""

    process: TurnlogProcess
    service: LiveService


@asynccontextmanager
async def run_service(host: ProcessHost) -> AsyncGenerator[RunningService]:
    """Run `turnlog up` while the body runs, which may kill it."""
    ready_file = host.folder / "data/ready.json"
    ready_file.unlink(missing_ok=True)
    words = ("up", "--data-dir", str(host.folder / "data"), "--http", "127.0.0.1:0")
    process = await host.start_process(*words)
    addresses = json.loads(await wait_for_file(ready_file, process))
    keyring = read_keyring(host.folder / "data")
    async with connect_service(addresses["http"], addresses["nats"], keyring=keyring) as service:
        yield RunningService(process, service)
    if process.returncode is None:
        await stop_cleanly(process)


async def check_forged_ones_are_refused(receiver: SampleReceiver) -> None:
    """Send deliveries that Turnlog did not sign."""
    count = len(receiver.printed)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": "1764410400"}
    async with httpx.AsyncClient() as http:
        for forged in ({}, headers, {**headers, "webhook-signature": "v1,AAAA"}):
            answer = await http.post(
                f"http://127.0.0.1:{receiver.port}/in", content=b"{}", headers=forged
            )
            assert answer.status_code == 401
    assert len(receiver.printed) == count
