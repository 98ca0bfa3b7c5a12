"""The commands of the page about back-ups, on real stores: SQLite, Postgres, and a nats-server."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tarfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.docs.doc_pages import ROOT, DocBlock, compile_output_pattern, list_blocks
from tests.docs.doc_shell import DEFAULT_ADDRESS, DocShell
from tests.faults.suite_extent import whole_programme
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from tests.support.processes.live_service import connect_service
from tests.support.processes.process_host import PROGRAM_FOLDER, find_free_port, run_process_host
from tests.support.processes.turnlog_process import fork_turnlog
from tests.support.servers.postgres_server import PostgresServer
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

pytestmark = pytest.mark.timeout(400)

PAGE = ROOT / "docs/back-up.md"

LONG = 120.0
"""Seconds until a process that does not end counts as hanging."""

BLOCKS = {
    "checkpoint": "turnlog checkpoint backup/heads.json",
    "copy keyring": "cp .turnlog/keyring elsewhere",
    "copy folder": "--create --gzip --file backup/turnlog.tar.gz",
    "restore folder": "--extract --gzip --file backup/turnlog.tar.gz",
    "dump rows": "pg_dump",
    "copy store": "--create --gzip --file backup/log.tar.gz",
    "restore store and rows": "pg_restore",
    "verify service": "--url http://127.0.0.1:8700",
    "copy streams": "copy_streams.py save",
    "restore streams": "copy_streams.py load",
    "rebuild": "turnlog rebuild",
}
"""What the tests call each block of commands, by a text that only it contains."""


def find_block(language: str, text: str) -> DocBlock:
    """Return the only block of a language that contains a text."""
    blocks = [each for each in list_blocks(PAGE) if each.language == language]
    (found,) = [each for each in blocks if text in each.code]
    return found


@dataclass(frozen=True)
class Operator:
    """Somebody who runs the page's commands in a folder."""

    folder: Path
    exported: Mapping[str, str] = field(default_factory=dict[str, str])
    address: str = DEFAULT_ADDRESS

    def run_block(self, name: str) -> None:
        """Run a block of the page; it must print what the page says."""
        block = find_block("sh", BLOCKS[name])
        code = block.code.replace("4333", str(find_free_port()))
        shell = DocShell(self.folder, self.address, self.exported)
        (printed,) = shell.run_blocks([code])
        if block.printed is not None:
            seen = re.sub(" +$", "", printed, flags=re.MULTILINE).strip()
            assert compile_output_pattern(block.printed).fullmatch(seen), printed


def run_session(address: str, session: str) -> None:
    """Open a session and run a turn in it."""
    with httpx.Client(base_url=address, timeout=LONG) as client:
        body = {"blueprint": "assistant", "session": session}
        client.post("/v1/sessions", json=body).raise_for_status()
        turn = f"/v1/sessions/{session}/turns?wait=100"
        settled = client.post(turn, json={"text": "Hello!"}).raise_for_status().json()
        assert settled["status"] == "completed"
        # The rows hold the last event before anything is copied.
        query = {"min_sequence": f"{session}:{settled['settled']}"}
        client.get("/v1/sessions", params=query).raise_for_status()


def list_sessions(address: str) -> set[str]:
    with httpx.Client(base_url=address, timeout=LONG) as client:
        found = client.get("/v1/sessions").raise_for_status().json()["sessions"]
    return {str(each["session"]) for each in found}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stopped service of two sessions, its checkpoint, and its copied streams."""
    folder = tmp_path_factory.mktemp("operator")
    # Small chunks, so that these streams have several, as long ones have.
    program = find_block("python", "copy_streams").code.replace("65_536", "1_024")
    (folder / "copy_streams.py").write_text(program)
    operator = Operator(folder)
    with run_blocking_turnlog_up(folder / ".turnlog") as up:
        run_session(up.http, "first")
        run_session(up.http, "second")
        operator.run_block("checkpoint")
        operator.run_block("copy keyring")
        operator.run_block("copy streams")
    return folder


@pytest.fixture
def operator(stopped: Path, tmp_path: Path) -> Operator:
    """The same folder for one test alone."""
    return Operator(shutil.copytree(stopped, tmp_path / "operator"))


def test_every_command_of_the_page_is_run_by_a_test() -> None:
    blocks = [each for each in list_blocks(PAGE) if each.language == "sh"]
    assert [find_block("sh", text) for text in BLOCKS.values()] == blocks


@whole_programme
def test_copied_folder_is_restored_and_rows_newer_than_it_are_rebuilt(operator: Operator) -> None:
    data_dir = operator.folder / ".turnlog"
    operator.run_block("copy folder")
    with tarfile.open(operator.folder / "backup/turnlog.tar.gz") as copied:
        assert {".turnlog/jetstream", ".turnlog/keyring"} & {*copied.getnames()} == {
            ".turnlog/jetstream"
        }
    with run_blocking_turnlog_up(data_dir) as up:
        run_session(up.http, "third")
    newer = (data_dir / "read-models.db").read_bytes()
    shutil.rmtree(data_dir)
    operator.run_block("restore folder")

    (data_dir / "read-models.db").write_bytes(newer)
    words = ("up", "--data-dir", str(data_dir), "--http", "127.0.0.1:0")
    refused = fork_turnlog(words, dict(os.environ), operator.folder / "refused.log")
    assert refused.join_process(LONG) == 5
    operator.run_block("rebuild")


@whole_programme
def test_copied_streams_are_restored_without_rows(operator: Operator) -> None:
    shutil.rmtree(operator.folder / ".turnlog")
    operator.run_block("restore streams")
    with run_blocking_turnlog_up(operator.folder / "restored") as up:
        run_session(up.http, "third")
        assert list_sessions(up.http) == {"first", "second", "third"}


@pytest.fixture
async def databases(postgres_server: PostgresServer) -> AsyncIterator[tuple[str, str]]:
    """The names of two empty databases."""
    names = f"before_{uuid4().hex}", f"after_{uuid4().hex}"
    for name in names:
        await postgres_server.execute_statement(f"CREATE DATABASE {name}")
    yield names
    for name in names:
        await postgres_server.execute_statement(f"DROP DATABASE {name} WITH (FORCE)")


def build_variables(postgres: PostgresServer, database: str, store: Path) -> dict[str, str]:
    """Return the variables of an operator whose rows are in a database."""
    return {
        "PATH": f"{PROGRAM_FOLDER}:{postgres.programs}:{os.defpath}",
        "DATABASE": f"postgresql://postgres@/{database}?host={postgres.folder}",
        "TURNLOG_DATABASE_URL": postgres.build_url(database),
        "STORE": str(store),
        "TURNLOG_KEYRING": str(store.parent / "elsewhere/keyring"),
    }


@whole_programme
async def test_copied_store_and_dumped_rows_are_restored_together(
    operator: Operator, postgres_server: PostgresServer, databases: tuple[str, str]
) -> None:
    before, after = (
        build_variables(postgres_server, name, operator.folder / name) for name in databases
    )
    shutil.move(operator.folder / ".turnlog", before["STORE"])
    async with await NatsServer.start(NatsConfig(data_dir=Path(before["STORE"]))) as server:
        settings = before | {"TURNLOG_NATS_URL": server.url}
        shell = DocShell(operator.folder, exported=settings)
        # What a projector would have done: Postgres holds the rows of the log.
        await asyncio.to_thread(shell.run_blocks, ["turnlog rebuild"])
        await asyncio.to_thread(Operator(operator.folder, settings).run_block, "dump rows")
    Operator(operator.folder, before).run_block("copy store")
    shutil.rmtree(before["STORE"])

    Operator(operator.folder, after).run_block("restore store and rows")
    address = f"127.0.0.1:{find_free_port()}"
    async with await NatsServer.start(
        NatsConfig(data_dir=Path(after["STORE"]), monitor=True)
    ) as server:
        assert server.monitor_url
        settings = after | {"TURNLOG_NATS_URL": server.url, "TURNLOG_HTTP": address}
        settings["TURNLOG_NATS_MONITOR"] = server.monitor_url
        async with run_process_host(operator.folder, settings) as host:
            gateway = await host.start_process("run", "gateway")
            restored = Operator(operator.folder, after, f"http://{address}")
            async with connect_service(restored.address, server.url) as service:
                await service.wait_until_ready(gateway)
            await asyncio.to_thread(restored.run_block, "verify service")
            found = await asyncio.to_thread(list_sessions, restored.address)
            assert found == {"first", "second"}
