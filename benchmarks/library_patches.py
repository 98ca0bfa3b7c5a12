"""What each patch inside a library, and each trick with an import, saves: one line for each.

`python -m benchmarks.library_patches` measures all of them, or those that are named. With and
without a patch alternate, each time in a new process. The figures are processor time, so that a
busy machine changes them little, and what is resident in memory at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

STREAMED_TOKENS: Final = 400

STREAMS: Final = 5

ERROR_BYTES: Final = 250_000

MESSAGES: Final = 20_000

HEADERS: Final = (
    b"NATS/1.0\r\nNats-Stream: SESSIONS\r\nNats-Subject: session.local.a.turn-submitted\r\n"
    b"Nats-Sequence: 1234567\r\nNats-Time-Stamp: 2026-11-27T02:00:00.123456789Z\r\n\r\n"
)
"""Headers of a stored message, as nats-server sends them."""


@dataclass(frozen=True, slots=True)
class LibraryPatch:
    """A patch, what it is measured by, and how to do without it."""

    measured: str
    measure: Callable[[], float]
    """Returns the milliseconds of processor time."""
    undo: Callable[[], object]


def main() -> None:
    """Print a line for each patch, or measure one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patches", nargs="*", metavar="PATCH", help=", ".join(PATCHES))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--once", choices=("with", "without"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        _measure_once(PATCHES[options.patches[0]], patched=options.once == "with")
        return
    for name in options.patches or PATCHES:
        _compare(name, options.runs)


def _compare(name: str, runs: int) -> None:
    found: dict[str, list[tuple[float, float]]] = {"with": [], "without": []}
    for side in ("with", "without") * (runs + 1):
        found[side].append(_run_process(name, side))
    # The first of each may have compiled what it imports.
    medians = {
        side: [statistics.median(values) for values in zip(*taken[1:], strict=True)]
        for side, taken in found.items()
    }
    (milliseconds, memory), (whole, more) = medians["with"], medians["without"]
    print(
        f"{name}: {milliseconds:.4g} ms with it, {whole:.4g} without"
        f" ({milliseconds / whole:.2f}x); {memory:.1f} MB, {more:.1f} without;"
        f" {PATCHES[name].measured}",
        flush=True,
    )


def _run_process(name: str, side: str) -> tuple[float, float]:
    command = (sys.executable, "-m", "benchmarks.library_patches", name, "--once", side)
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    milliseconds, memory = map(float, ran.stdout.split()[-2:])
    return milliseconds, memory


def _measure_once(patch: LibraryPatch, *, patched: bool) -> None:
    if not patched:
        patch.undo()
    milliseconds = patch.measure()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    print(milliseconds, pages * resource.getpagesize() / 2**20)


# Imports: the whole process counts, from its start.


def _open_role(role: str) -> float:
    from turnlog.services.platform.lean_imports import (  # noqa: PLC0415
        import_structlog,
        omit_httpx_program,
    )

    omit_httpx_program()
    import_structlog()
    from turnlog.services.cli.actions import service_start  # noqa: PLC0415
    from turnlog.services.cli.environment import read_settings  # noqa: PLC0415
    from turnlog.services.platform.shutdown import Shutdown  # noqa: PLC0415

    roles = cast("Mapping[str, Any]", service_start.ROLE_SETTINGS)
    settings = read_settings(roles[role], {}, {"nats_url": "nats://127.0.0.1:4222"})
    service_start.open_role(settings, Shutdown())
    return time.process_time() * 1e3


def _run_command(*words: str) -> float:
    from turnlog.services.cli.main import main as run  # noqa: PLC0415

    with suppress(SystemExit), open(os.devnull, "w") as nowhere:  # noqa: PTH123
        sys.stdout, shown = nowhere, sys.stdout
        try:
            run([*words])
        finally:
            sys.stdout = shown
    return time.process_time() * 1e3


# litellm: calls alone count, after it has been imported.


def _stream_answers() -> float:
    return asyncio.run(_stream_from_server())


async def _stream_from_server() -> float:
    from benchmarks.support.clock_model_server import (  # noqa: PLC0415
        ModelSpeech,
        run_server_process,
    )

    async with run_server_process(ModelSpeech(STREAMED_TOKENS, 0)) as address:
        stream = await _prepare_stream(address)
        await stream()
        began = time.process_time()
        for _ in range(STREAMS):
            await stream()
            # What litellm does with a finished answer, it does in tasks and threads of its own.
            await asyncio.sleep(0.3)
        return (time.process_time() - began) / STREAMS * 1e3


def _read_first_answer() -> float:
    return asyncio.run(_read_first_from_server())


async def _read_first_from_server() -> float:
    from benchmarks.support.clock_model_server import (  # noqa: PLC0415
        ModelSpeech,
        run_server_process,
    )

    async with run_server_process(ModelSpeech(1, 0)) as address:
        stream = await _prepare_stream(address)
        began = time.process_time()
        await stream()
        return (time.process_time() - began) * 1e3


def _read_error() -> float:
    return asyncio.run(_read_error_from_server())


async def _read_error_from_server() -> float:
    async with _run_refusing_server() as address:
        stream = await _prepare_stream(address)
        began = time.process_time()
        with suppress(Exception):  # Of litellm's own kind, which is imported late.
            await stream()
        return (time.process_time() - began) * 1e3


async def _prepare_stream(address: str) -> Callable[[], Awaitable[None]]:
    """Import litellm, and return what streams one answer through it."""
    from turnlog.services.worker.model.litellm_model import LitellmModel  # noqa: PLC0415
    from turnlog.services.worker.model.model_types import ModelRequest  # noqa: PLC0415

    os.environ |= {"OPENAI_API_BASE": address, "OPENAI_API_KEY": "none"}
    model = LitellmModel()
    await model.load_early()

    async def stream() -> None:
        messages = ({"role": "user", "content": "What time is it?"},)
        async for _ in model.stream(ModelRequest(model="openai/bench", messages=messages)):
            pass

    return stream


@asynccontextmanager
async def _run_refusing_server() -> AsyncGenerator[str]:
    body = b'{"error": {"message": "%s"}}' % (b"x" * ERROR_BYTES)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def _keep_accounting() -> None:
    module = import_module("turnlog.services.worker.model.litellm_model")

    def keep_chunks(stream: object) -> object:
        return stream

    vars(module)["stop_accounting"] = keep_chunks


def _omit_step(module_name: str, step: str) -> None:
    """Let the import of litellm do without one of our steps."""
    module = import_module(f"turnlog.services.worker.model.{module_name}")

    def do_nothing(*_: object) -> None:
        pass

    vars(module)[step] = do_nothing


# nats-py: messages with headers come from a nats-server, to which plain bytes are written.


@dataclass(slots=True)
class _ParserChoice:
    raw: bool = True


_parser = _ParserChoice()


def _use_own_parser_of_nats() -> None:
    _parser.raw = False


def _receive_messages() -> float:
    return asyncio.run(_receive_from_server())


async def _receive_from_server() -> float:
    from turnlog.events.jetstream.nats_connection import (  # noqa: PLC0415
        open_connection,
        open_subscription,
    )
    from turnlog.events.jetstream.subscriptions import subscribe_raw  # noqa: PLC0415
    from turnlog.services.platform.nats_server import NatsConfig, NatsServer  # noqa: PLC0415

    arrived, whole = list[object](), asyncio.Event()

    def take(message: object) -> None:
        arrived.append(message)
        if len(arrived) == MESSAGES:
            whole.set()

    async def take_parsed(message: object) -> None:
        take(message)

    with tempfile.TemporaryDirectory(prefix="turnlog-parser-") as folder:
        async with (
            await NatsServer.start(NatsConfig(data_dir=Path(folder))) as server,
            open_connection(server.url) as connection,
        ):
            nc = connection.nc
            subscribed = (
                subscribe_raw(nc, "bench", take)
                if _parser.raw
                else open_subscription(nc, "bench", take_parsed)
            )
            async with subscribed:
                await nc.flush()
                began = time.process_time()
                await asyncio.to_thread(_publish_messages, server.url)
                await whole.wait()
                return (time.process_time() - began) * 1e3


def _parse_all_headers() -> float:
    return asyncio.run(_parse_headers_in_turn())


async def _parse_headers_in_turn() -> float:
    from nats.aio.client import Client  # noqa: PLC0415

    from turnlog.events.jetstream.subscriptions import parse_headers  # noqa: PLC0415

    client = cast("Any", Client())
    began = time.process_time()
    for _ in range(MESSAGES):
        if _parser.raw:
            parse_headers(HEADERS)
        else:
            await client._process_headers(HEADERS)  # noqa: SLF001
    return (time.process_time() - began) * 1e3


def _publish_messages(url: str) -> None:
    """Let a program of its own publish all messages."""
    subprocess.run([sys.executable, "-c", _PUBLISHER, url], check=True)


_PUBLISHER: Final = f"""
import json, socket, sys
from urllib.parse import urlsplit
url = urlsplit(sys.argv[1])
login = {{"auth_token": url.username}}
if url.password:
    login = {{"user": url.username, "pass": url.password}}
options = json.dumps({{"verbose": False, "headers": True, **login}}).encode()
head, body = {HEADERS!r}, b"x" * 600
message = b"HPUB bench %d %d\\r\\n" % (len(head), len(head) + len(body)) + head + body + b"\\r\\n"
with socket.create_connection((url.hostname, url.port)) as server:
    server.recv(65536)
    server.sendall(b"CONNECT " + options + b"\\r\\n" + message * {MESSAGES} + b"PING\\r\\n")
    while b"PONG" not in server.recv(65536):
        pass
"""


PATCHES: Final[Mapping[str, LibraryPatch]] = {
    "nats-py without aiohttp, gateway": LibraryPatch(
        "start of a gateway, imports only",
        partial(_open_role, "gateway"),
        partial(import_module, "aiohttp"),
    ),
    "structlog without rich, gateway": LibraryPatch(
        "start of a gateway, imports only",
        partial(_open_role, "gateway"),
        partial(import_module, "rich"),
    ),
    "SQLAlchemy without its ORM, gateway": LibraryPatch(
        "start of a gateway, imports only",
        partial(_open_role, "gateway"),
        partial(import_module, "sqlalchemy.ext.asyncio"),
    ),
    "httpx without its program, command": LibraryPatch(
        "`turnlog sessions` where no service answers",
        partial(_run_command, "sessions", "--url", "http://127.0.0.1:9"),
        partial(import_module, "httpx._main"),
    ),
    "httpx without its program, worker": LibraryPatch(
        "start of a worker, imports only",
        partial(_open_role, "worker"),
        partial(import_module, "httpx._main"),
    ),
    "turnlog.events on demand": LibraryPatch(
        "`turnlog --help`",
        partial(_run_command, "--help"),
        partial(import_module, "turnlog.events.codec"),
    ),
    "raw messages": LibraryPatch(
        f"{MESSAGES:,} messages with headers, from the socket to a callback",
        _receive_messages,
        _use_own_parser_of_nats,
    ),
    "headers": LibraryPatch(
        f"the headers of {MESSAGES:,} stored messages",
        _parse_all_headers,
        _use_own_parser_of_nats,
    ),
    "litellm accounts nothing": LibraryPatch(
        f"a streamed answer of {STREAMED_TOKENS} tokens, by litellm",
        _stream_answers,
        _keep_accounting,
    ),
    "litellm answers early": LibraryPatch(
        "the first answer of one token, by litellm",
        _read_first_answer,
        partial(_omit_step, "litellm_model", "read_first_answer"),
    ),
    "bounded responses": LibraryPatch(
        f"an error of {ERROR_BYTES:,} bytes, by litellm",
        _read_error,
        partial(_omit_step, "litellm_library", "_bound_responses"),
    ),
}

if __name__ == "__main__":
    main()
