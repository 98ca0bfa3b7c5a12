from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import DEVNULL, STDOUT, Process
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import urlsplit

from turnlog.events.errors import Unavailable
from turnlog.services.runtime.file_lock import lock_file
from turnlog.services.runtime.nats_config import NatsConfig

SERVER_NAME = "nats-server"
POLL_SECONDS = 0.02
"""Seconds between two checks of the files and locks of another process."""


@dataclass(frozen=True, slots=True)
class NatsRun:
    """A running server that accepts work."""

    process: Process
    port: int
    monitor_url: str | None


async def start_run(config: NatsConfig, binary: Path, *, timeout: float) -> NatsRun:
    """Start the server on the files of `write_config` and wait until it accepts work."""
    with await _lock_run(config, timeout) as lock:
        _remove_leftover_files(config)
        process = await _start_process(config, binary, lock.fileno())
    try:
        async with asyncio.timeout(timeout):
            return await _wait_until_ready(config, process)
    except BaseException as failure:
        await stop_run(process, timeout=0)
        if isinstance(failure, TimeoutError):
            raise Unavailable(SERVER_NAME, f"not ready in {timeout:g} s; see {config.log_file}") from None
        raise


async def stop_run(process: Process, *, timeout: float) -> None:
    """Ask the server to stop, and kill it after `timeout` seconds."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
    except TimeoutError:
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
            raise Unavailable(SERVER_NAME, f"no program at {binary}: run `make install`") from failure


async def _wait_until_ready(config: NatsConfig, process: Process) -> NatsRun:
    while (ports := _read_ports(config, process.pid)) is None:
        if process.returncode is not None:
            raise Unavailable(SERVER_NAME, f"ended at once: {_read_last_log_line(config)}")
        await asyncio.sleep(POLL_SECONDS)
    port = urlsplit(ports["nats"][0]).port or 0
    await _check_jetstream_enabled(config.host, port)
    return NatsRun(process, port, next(iter(ports.get("monitoring", [])), None))


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
        raise Unavailable(SERVER_NAME, f"another one still runs on {config.data_dir}") from None
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
    return lines[-1] if lines else f"nothing said in {config.log_file}"
