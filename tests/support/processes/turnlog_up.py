"""`turnlog up`: the whole service in one process, for asynchronous tests."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.live_service import TENANT, LiveService, connect_service
from tests.support.processes.process_host import (
    NO_VARIABLES,
    ProcessHost,
    stop_cleanly,
    wait_for_file,
)
from tests.support.processes.turnlog_process import TurnlogProcess
from tests.support.sessions.reproduction_checks import find_unreproducible_calls_on
from turnlog.events.seals.file_keyring import FileKeyring
from turnlog.events.seals.keyrings import SealKeyring
from turnlog.services.seals.keyring_files import KEYRING_FILE


@dataclass(frozen=True, slots=True, repr=False)
class TurnlogUp:
    """A running `turnlog up`."""

    process: TurnlogProcess
    service: LiveService
    ready_file: Path


def read_keyring(data_dir: Path) -> FileKeyring | None:
    """Return the keyring that a service has made in its data directory, if it seals."""
    file = data_dir / KEYRING_FILE
    return FileKeyring.open(file) if file.exists() else None


@asynccontextmanager
async def run_turnlog_up(
    host: ProcessHost,
    *,
    output_file: Path | None = None,
    variables: Mapping[str, str] = NO_VARIABLES,
    address: str = "127.0.0.1:0",
    keyring: SealKeyring | None = None,
) -> AsyncGenerator[TurnlogUp]:
    """Start `turnlog up` in the host's folder, wait until it accepts work, and stop it at the end.

    If the process still runs after the body, every recorded prompt must be reproducible from its
    log. That is read with `keyring`, or with the file that the service has made.
    """
    words = ("up", "--data-dir", str(host.folder / "data"), "--http", address)
    process = await host.start_process(*words, output_file=output_file, variables=variables)
    ready_file = host.folder / "data/ready.json"
    addresses = json.loads(await wait_for_file(ready_file, process))
    try:
        opening = keyring or read_keyring(host.folder / "data")
        async with connect_service(
            addresses["http"],
            addresses["nats"],
            keyring=opening,
            archive=host.folder / "data/archive",
        ) as service:
            yield TurnlogUp(process, service, ready_file)
            if process.returncode is None:
                assert (
                    await find_unreproducible_calls_on(service.nats.log, service.nats.blobs, TENANT)
                    == []
                )
    finally:
        await stop_cleanly(process)
