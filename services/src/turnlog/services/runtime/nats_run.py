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
from turnlog.services.runtime.file_lock import take_lock
from turnlog.services.runtime.nats_config import NatsConfig

PART = "nats-server"
POLL = 0.02
"""Seconds between two checks of the files and locks of another process."""


@dataclass(frozen=True, slots=True)
class Run:
    """A running server that accepts work."""

    process: Process
    port: int
    monitor_url: str | None


async def begin(config: NatsConfig, binary: Path, *, within: float) -> Run:
    """Start the server on the files of `write_config` and wait until it accepts work."""
    with await _lock_of_ended_run(config, within) as lock:
        _forget_ended_run(config)
        process = await _start(config, binary, lock.fileno())
    try:
        async with asyncio.timeout(within):
            return await _ready(config, process)
    except BaseException as failure:
        await end(process, within=0)
        if isinstance(failure, TimeoutError):
            raise Unavailable(PART, f"not ready in {within:g} s; see {config.log_file}") from None
        raise


async def end(process: Process, *, within: float) -> None:
    """Ask the server to stop, and kill it after `timeout` seconds."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(within):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _start(config: NatsConfig, binary: Path, lock: int) -> Process:
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
            raise Unavailable(PART, f"no program at {binary}: run `make install`") from failure


async def _ready(config: NatsConfig, process: Process) -> Run:
    while (ports := _ports(config, process.pid)) is None:
        if process.returncode is not None:
            raise Unavailable(PART, f"ended at once: {_last_words(config)}")
        await asyncio.sleep(POLL)
    port = urlsplit(ports["nats"][0]).port or 0
    await _greeting_with_jetstream(config.host, port)
    return Run(process, port, next(iter(ports.get("monitoring", [])), None))


def _ports(config: NatsConfig, pid: int) -> dict[str, list[str]] | None:
    try:
        found = json.loads((config.data_dir / f"nats-server_{pid}.ports").read_bytes())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return cast("dict[str, list[str]]", found)


async def _greeting_with_jetstream(host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        greeting = await reader.readline()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    if not json.loads(greeting.removeprefix(b"INFO ")).get("jetstream"):
        raise Unavailable(PART, "answers without JetStream")


async def _lock_of_ended_run(config: NatsConfig, within: float) -> BinaryIO:
    try:
        async with asyncio.timeout(within):
            while (lock := take_lock(config.data_dir / "server.lock")) is None:
                _ask_leftover_to_stop(config.pid_file)
                await asyncio.sleep(POLL)
    except TimeoutError:
        raise Unavailable(PART, f"another one still runs on {config.data_dir}") from None
    return lock


def _ask_leftover_to_stop(pid_file: Path) -> None:
    # The lock is held, so the process that wrote this file is alive and the id is its own.
    with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
        os.kill(int(pid_file.read_text()), signal.SIGTERM)


def _forget_ended_run(config: NatsConfig) -> None:
    # Process ids are reused: files of a killed run must not be taken for those of this one.
    config.pid_file.unlink(missing_ok=True)
    for ports in config.data_dir.glob("nats-server_*.ports"):
        ports.unlink()


def _last_words(config: NatsConfig) -> str:
    lines = config.log_file.read_text(errors="replace").splitlines()
    return lines[-1] if lines else f"nothing said in {config.log_file}"
