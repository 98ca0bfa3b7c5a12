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
from turnlog.events.jetstream.nats_connection import build_service_inbox, open_connection
from turnlog.events.jetstream.stream_setup import StreamOptions, provision_streams
from turnlog.services.platform.nats_permissions import NATS_USERS, NatsUser
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
        self.gateway = await self.start_role("gateway")
        await self.service.wait_until_ready(self.gateway)

    async def start_projector(self) -> None:
        """Start a projector in place of the last one."""
        self.projector = await self.start_role("projector")

    async def start_worker(self) -> TurnlogProcess:
        """Start one more worker; it takes turns once it has loaded."""
        worker = await self.start_role("worker")
        self.workers.append(worker)
        return worker

    async def start_role(
        self,
        role: NatsUser,
        variables: Mapping[str, str] = NO_VARIABLES,
        output_file: Path | None = None,
    ) -> TurnlogProcess:
        """Start a process of a role with its own login of NATS."""
        return await start_role(
            self.machine, self.server, role, variables=variables, output_file=output_file
        )

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


ROLE_PASSWORDS: Mapping[NatsUser, str] = {
    user: f"of-{user}" for user in NATS_USERS if user != "consumer"
}
"""Those beside the two that an embedded server always has."""


async def start_role(
    host: ProcessHost,
    server: NatsServer,
    role: NatsUser,
    *,
    variables: Mapping[str, str] = NO_VARIABLES,
    output_file: Path | None = None,
) -> TurnlogProcess:
    """Start a process of a role, which has no more of NATS than its login."""
    bare = {} if role == "worker" else WITHOUT_LITELLM
    places = {"TURNLOG_NATS_URL": server.role_urls[role]}
    return await host.start_process(
        "run", role, output_file=output_file, variables={**bare, **places, **variables}
    )


async def provision_as_job(server: NatsServer) -> None:
    """Create the streams with the login that may."""
    url = server.role_urls["provision"]
    async with open_connection(url, inbox_prefix=build_service_inbox(url)) as connection:
        await provision_streams(connection, StreamOptions())


def list_violations(config: NatsConfig) -> list[str]:
    """List what a server has refused to logins that it knows."""
    lines = config.log_file.read_text(errors="replace").splitlines()
    return [line for line in lines if "Violation" in line]


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
    config = NatsConfig(data_dir=folder / "nats", monitor=True, role_passwords=ROLE_PASSWORDS)
    async with await NatsServer.start(config) as server:
        assert server.monitor_url
        await provision_as_job(server)
        places = {
            "TURNLOG_NATS_MONITOR": server.monitor_url,
            "TURNLOG_DATABASE_URL": postgres.build_url(database),
            "TURNLOG_HTTP": f"127.0.0.1:{port}",
        }
        async with (
            connect_service(f"http://127.0.0.1:{port}", server.url) as service,
            run_process_host(folder, {**build_settings(provider), **places, **variables}) as host,
        ):
            projector = await start_role(host, server, "projector")
            gateway = await start_role(host, server, "gateway")
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
    assert list_violations(config) == []
