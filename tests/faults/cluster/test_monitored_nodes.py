"""What roles read from the monitoring addresses never stops them, except a node without fsync."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from nats.aio.client import Client

from tests.faults.cluster.cluster_site import ClusterSite, SiteShape, run_site
from tests.faults.cluster.site_checks import (
    READY_BOUND,
    require_no_harm,
    require_no_unexpected_exit,
    require_ready,
    wait_until_faultless,
)
from tests.faults.cluster.site_faults import LAME_DUCK, restart_node
from tests.faults.cluster.site_roles import RoleName, SupervisedRole
from tests.faults.suite_extent import whole_programme
from tests.support.servers.nats_cluster import NatsNode

pytestmark = [whole_programme, pytest.mark.timeout(600)]

ROLES: tuple[RoleName, ...] = ("gateway", "worker", "projector")

IDLE_CLIENTS = 25
"""A lame duck sends one client away each second: with these it lasts while roles start."""


@pytest.mark.promise("P2", "P7")
async def test_roles_stay_ready_and_start_while_the_first_node_is_down(site: ClusterSite) -> None:
    first, *_ = site.nats.nodes
    before = list(site.roles.members)
    await first.end_process(signal.SIGKILL)
    async with site.run_load() as load:
        await load.wait_for_turns()
    await require_ready(site, before, within=READY_BOUND)
    for role in ROLES:
        await site.start_role(role)
    await require_ready(site, within=READY_BOUND)
    require_no_unexpected_exit(site)
    await first.start_process()
    await require_no_harm(site)


@pytest.mark.promise("P2", "P7")
async def test_roles_start_while_a_node_is_in_lame_duck_mode(site: ClusterSite) -> None:
    first, *_ = site.nats.nodes
    # A server repeats what it once said of its store; after a restart nobody has asked it yet.
    await restart_node(site, first)
    async with connect_idle_clients(first):
        first.send_signal(LAME_DUCK)
        await wait_until_faultless(partial(find_running_store, first))
        for role in ROLES:
            await site.start_role(role)
        await require_ready(site, within=READY_BOUND)
        require_no_unexpected_exit(site)
        assert first.is_running, "it ended before the roles had started"
        await first.wait_for_exit()
    await first.start_process()
    await require_no_harm(site)


@pytest.mark.promise("P2")
async def test_no_role_starts_beside_a_node_that_acknowledges_before_fsync(tmp_path: Path) -> None:
    shape = SiteShape(gateways=1, workers=1, projectors=1, unsynced_nodes=frozenset({"n2"}))
    async with run_site(tmp_path, shape) as site:
        for role in site.roles.members:
            await wait_until_faultless(partial(find_unrefused_start, role), within=READY_BOUND)
            assert "sync_interval" in role.read_output()
            assert "n2" in role.read_output()
        # They would be started again for ever.
        await site.roles.end_all(signal.SIGKILL)


async def find_unrefused_start(role: SupervisedRole) -> list[str]:
    """Return that a role has not refused to start yet."""
    return [] if role.unexpected_exits else [f"{role.name} has not refused: {role.read_output()}"]


@asynccontextmanager
async def connect_idle_clients(node: NatsNode) -> AsyncGenerator[None]:
    """Connect clients to a node that do nothing, and stay away when they are sent away."""
    async with AsyncExitStack() as open_clients:
        for _ in range(IDLE_CLIENTS):
            client = Client()
            await client.connect(node.url, allow_reconnect=False)
            open_clients.push_async_callback(client.close)
        yield


async def find_running_store(node: NatsNode) -> list[str]:
    """Return that a node still serves its store, which a lame duck stops first."""
    async with httpx.AsyncClient(timeout=5) as http:
        return ["its store runs"] if await node.is_healthy(http) else []
