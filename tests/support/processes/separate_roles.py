"""The production layout on one machine: NATS, Postgres, and one process for each role."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes.live_service import LiveService, connect_service
from tests.support.processes.process_host import (
    NO_VARIABLES,
    ProcessHost,
    find_free_port,
    run_process_host,
)
from tests.support.processes.turnlog_process import TurnlogProcess
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.postgres_server import PostgresServer
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

BLUEPRINT_FOLDER = Path(__file__).parent / "blueprints"

MODEL_NAME = "openai/gpt-4o-mini"

IMPORT_GUARD_FOLDER = Path(__file__).parent / "litellm_import_guard"

WITHOUT_LITELLM = {"PYTHONPATH": str(IMPORT_GUARD_FOLDER)}
"""Variables of a process that must exit if it imports litellm."""

ACK_WAIT = 2.0

GRACE = 3.0


@dataclass(repr=False, kw_only=True)
class SeparateRoles:
    """A service of separate processes, each of which a test may stop or start."""

    machine: ProcessHost
    server: NatsServer
    database: str
    provider: OpenAIServer
    service: LiveService
    gateway: TurnlogProcess
    projector: TurnlogProcess
    workers: list[TurnlogProcess] = field(default_factory=list[TurnlogProcess])
    """The workers that were started, those that ended included."""

    async def start_gateway(self) -> None:
        """Start a gateway at the address of the last one, and wait until it is ready."""
        self.gateway = await self.machine.start_process("run", "gateway", variables=WITHOUT_LITELLM)
        await self.service.wait_until_ready(self.gateway)

    async def start_projector(self) -> None:
        """Start a projector in place of the last one."""
        self.projector = await self.machine.start_process(
            "run", "projector", variables=WITHOUT_LITELLM
        )

    async def start_worker(self) -> TurnlogProcess:
        """Start one more worker; it takes turns once it has loaded."""
        worker = await self.machine.start_process("run", "worker")
        self.workers.append(worker)
        return worker

    async def restart_nats(self) -> None:
        """Kill the nats-server and start it again on its store."""
        os.kill(self.server.pid, signal.SIGKILL)
        await self.server.wait_for_exit()
        await self.server.restart()


SNAPSHOT_KEY = "5e" * 32
"""With it tests read the snapshots of these processes."""


def build_settings(provider: OpenAIServer) -> dict[str, str]:
    """Return the settings of the processes in these tests."""
    return {
        "OPENAI_API_BASE": provider.url,
        "OPENAI_API_KEY": "sk-of-nobody",
        "TURNLOG_MODEL": MODEL_NAME,
        "TURNLOG_BLUEPRINTS": str(BLUEPRINT_FOLDER),
        "TURNLOG_ACK_WAIT": str(ACK_WAIT),
        "TURNLOG_GRACE": str(GRACE),
        "TURNLOG_SNAPSHOT_KEY": SNAPSHOT_KEY,
    }


@asynccontextmanager
async def run_separate_roles(
    folder: Path,
    provider: OpenAIServer,
    postgres: PostgresServer,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> AsyncGenerator[SeparateRoles]:
    """Run a gateway and a projector; tests start the workers themselves."""
    database = f"test_{uuid.uuid4().hex}"
    await postgres.execute_statement(f"CREATE DATABASE {database}")
    port = find_free_port()
    async with await NatsServer.start(NatsConfig(data_dir=folder / "nats", monitor=True)) as server:
        assert server.monitor_url
        places = {
            "TURNLOG_NATS_URL": server.url,
            "TURNLOG_NATS_MONITOR": server.monitor_url,
            "TURNLOG_DATABASE_URL": postgres.build_url(database),
            "TURNLOG_HTTP": f"127.0.0.1:{port}",
        }
        async with (
            connect_service(f"http://127.0.0.1:{port}", server.url) as service,
            run_process_host(folder, {**build_settings(provider), **places, **variables}) as host,
        ):
            projector = await host.start_process("run", "projector", variables=WITHOUT_LITELLM)
            gateway = await host.start_process("run", "gateway", variables=WITHOUT_LITELLM)
            await service.wait_until_ready(gateway)
            url = postgres.build_url(database)
            yield SeparateRoles(
                machine=host,
                server=server,
                database=url,
                provider=provider,
                service=service,
                gateway=gateway,
                projector=projector,
            )
    await postgres.execute_statement(f"DROP DATABASE {database} WITH (FORCE)")
