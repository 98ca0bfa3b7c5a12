"""A site: the documented production layout on a cluster, each part a process of its own.

Three nats-servers that replicate everything and fsync before they acknowledge, a Postgres, and two
of each role. Each node is a host that can vanish. The model is a fake in this process that echoes
what it was sent, called without litellm, so a site starts in seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_history import ClientHistory
from tests.faults.clients.client_load import ClientLoad, run_clients
from tests.faults.cluster.site_network import (
    NetworkForm,
    SiteNetwork,
    choose_network_form,
    run_site_network,
)
from tests.faults.cluster.site_roles import RoleName, RoleSet, SupervisedRole, run_role_set
from tests.support.processes.live_service import LiveService, connect_service
from tests.support.processes.process_host import NO_VARIABLES, run_process_host
from tests.support.processes.separate_roles import build_settings
from tests.support.servers.model_behaviours import EchoAnswer
from tests.support.servers.nats_cluster import (
    NODE_COUNT,
    NatsCluster,
    NatsNode,
    build_cluster,
    run_cluster,
)
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.postgres_server import PostgresServer, run_own_postgres
from turnlog.events.jetstream.nats_connection import NatsConnection, open_connection

DATABASE: Final = "turnlog"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteShape:
    """What a site consists of."""

    gateways: int = 2
    workers: int = 2
    projectors: int = 2
    slots: int = 4
    """Turns that a worker answers at once."""
    network: NetworkForm = field(default_factory=choose_network_form)
    unsynced_nodes: frozenset[str] = frozenset()
    """Nodes that acknowledge before fsync."""
    settings: Mapping[str, str] = field(default_factory=lambda: NO_VARIABLES)
    """Further settings of all roles."""


@dataclass(frozen=True, slots=True, repr=False)
class RecordedService:
    """A service whose log and rows can be read."""

    service: LiveService
    database: str


@dataclass(repr=False, kw_only=True)
class ClusterSite:
    """A running site."""

    shape: SiteShape
    network: SiteNetwork
    nats: NatsCluster
    postgres: PostgresServer
    provider: OpenAIServer
    roles: RoleSet
    history: ClientHistory = field(default_factory=ClientHistory)
    """What the clients of this test sent and received."""
    vanished: set[str] = field(default_factory=set[str])
    """Names of the nodes whose hosts have vanished."""
    _http: dict[str, httpx.AsyncClient] = field(default_factory=dict[str, httpx.AsyncClient])

    @property
    def database(self) -> str:
        return self.postgres.build_url(DATABASE)

    @property
    def gateways(self) -> Sequence[httpx.AsyncClient]:
        """A client for each gateway."""
        return list(self._http.values())

    @property
    def blueprint_folder(self) -> Path:
        """The folder of blueprints beside the shipped ones."""
        return self.roles.machine.folder / "blueprints"

    async def start_role(self, role: RoleName) -> None:
        """Start one more process of a role; it is not ready yet."""
        await self._create_role(role).start_supervised()

    def create_roles(self) -> None:
        """Create the roles of the site's shape."""
        self.blueprint_folder.mkdir()
        counts: Mapping[RoleName, int] = {
            "gateway": self.shape.gateways,
            "worker": self.shape.workers,
            "projector": self.shape.projectors,
        }
        for role, count in counts.items():
            for _ in range(count):
                self._create_role(role)

    def _create_role(self, role: RoleName) -> SupervisedRole:
        created = self.roles.create_role(role, self.build_variables())
        if role == "gateway":
            # Longer than any answer takes that is not hanging.
            self._http[created.name] = httpx.AsyncClient(base_url=created.url, timeout=90)
        return created

    async def close_clients(self) -> None:
        for client in self._http.values():
            await client.aclose()

    def build_variables(self) -> dict[str, str]:
        """Return the settings of a role."""
        return {
            **build_settings(self.provider),
            "TURNLOG_BLUEPRINTS": str(self.blueprint_folder),
            "TURNLOG_NATS_URL": self.nats.url,
            "TURNLOG_NATS_MONITOR": ",".join(node.monitor_url for node in self.nats.nodes),
            "TURNLOG_REPLICAS": str(NODE_COUNT),
            "TURNLOG_DURABILITY": "replicated",
            "TURNLOG_DATABASE_URL": self.database,
            "TURNLOG_CONCURRENCY": str(self.shape.slots),
            "TURNLOG_MODEL_ADAPTER": "direct",
            "TURNLOG_ACK_WAIT": "30",
            "TURNLOG_GRACE": "10",
            **self.shape.settings,
        }

    def list_reachable_nodes(self) -> list[NatsNode]:
        """Return the nodes that run and whose hosts have not vanished."""
        return [node for node in self.nats.list_running_nodes() if node.name not in self.vanished]

    @asynccontextmanager
    async def open_nats(self) -> AsyncGenerator[NatsConnection]:
        """Connect the test to the nodes that can be reached now, while the body runs."""
        url = ",".join(node.url for node in self.list_reachable_nodes())
        async with open_connection(url, name="turnlog-test") as connection:
            yield connection

    @asynccontextmanager
    async def open_record(self) -> AsyncGenerator[RecordedService]:
        """Connect the test to the log and the rows while the body runs."""
        base = str(self.gateways[0].base_url)
        async with connect_service(base, self.nats.url, replicas=NODE_COUNT) as service:
            yield RecordedService(service, self.database)

    def create_clients(self, count: int) -> list[AttackClient]:
        """Create clients, spread over the gateways."""
        gateways = self.gateways
        return [
            AttackClient(http=gateways[number % len(gateways)], history=self.history)
            for number in range(count)
        ]

    @asynccontextmanager
    async def run_load(self, clients: int = 8) -> AsyncGenerator[ClientLoad]:
        """Run clients in conversation through all gateways while the body runs."""
        async with run_clients(self.create_clients(clients)) as load:
            yield load


@asynccontextmanager
async def run_site(folder: Path, shape: SiteShape) -> AsyncGenerator[ClusterSite]:
    """Run a site while the body runs; its roles are started and not yet ready."""
    async with AsyncExitStack() as parts:
        network = await parts.enter_async_context(run_site_network(shape.network))
        cluster = build_cluster(folder, network.places)
        for node in cluster.nodes:
            node.syncs_always = node.name not in shape.unsynced_nodes
        await parts.enter_async_context(run_cluster(cluster))
        postgres = await asyncio.to_thread(parts.enter_context, run_own_postgres())
        await postgres.execute_statement(f"CREATE DATABASE {DATABASE}")
        provider = await parts.enter_async_context(OpenAIServer(EchoAnswer(pace=0.002)))
        host = await parts.enter_async_context(run_process_host(folder, NO_VARIABLES))
        roles = await parts.enter_async_context(run_role_set(host))
        site = ClusterSite(
            shape=shape,
            network=network,
            nats=cluster,
            postgres=postgres,
            provider=provider,
            roles=roles,
        )
        parts.push_async_callback(site.close_clients)
        site.create_roles()
        await cluster.wait_until_healthy()
        await roles.start_all()
        yield site
