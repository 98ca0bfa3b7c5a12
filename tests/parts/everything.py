"""`turnlog up`: the whole service in one process, for asynchronous tests."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.parts.forked import Process
from tests.parts.processes import NOTHING, Machine, ended, written
from tests.parts.reproduction import unproven_on
from tests.parts.service import TENANT, Service, serviced


@dataclass(frozen=True, slots=True)
class Up:
    """A running `turnlog up`."""

    process: Process
    service: Service
    ready_file: Path


@asynccontextmanager
async def everything(
    host: Machine, *, said: Path | None = None, told: Mapping[str, str] = NOTHING
) -> AsyncGenerator[Up]:
    """Start `turnlog up` in the host's folder, wait until it accepts work, and stop it at the end.

    If the process still runs after the body, every recorded prompt must be reproducible from its
    log.
    """
    words = ("up", "--data-dir", str(host.folder / "data"), "--http", "127.0.0.1:0")
    process = await host.start(*words, said=said, told=told)
    ready_file = host.folder / "data/ready.json"
    addresses = json.loads(await written(ready_file, process))
    try:
        async with serviced(addresses["http"], addresses["nats"]) as service:
            yield Up(process, service, ready_file)
            if process.returncode is None:
                assert await unproven_on(service.nats.log, service.nats.blobs, TENANT) == []
    finally:
        code = await ended(process)
        if code:
            # A killed process could not stop its nats-server.
            os.kill(int(ready_file.with_name("server.pid").read_text()), signal.SIGTERM)
        assert code == 0
