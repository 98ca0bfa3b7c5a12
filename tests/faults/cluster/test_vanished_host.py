"""A host vanishes without closing a connection, and costs seconds, not minutes."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from tests.faults.cluster.cluster_site import ClusterSite
from tests.faults.cluster.site_checks import (
    FAULT_TURN_BOUND,
    require_no_harm,
    require_quick_turns,
    require_ready,
)
from tests.faults.cluster.site_faults import (
    cut_off_node,
    find_leader,
    gather_clients,
    gather_workers,
    move_leaders,
    send_clients_away,
)
from tests.faults.suite_extent import whole_programme
from tests.support.servers.nats_cluster import NatsNode

pytestmark = [whole_programme, pytest.mark.timeout(600)]

ABSENCE_SECONDS: Final = 45.0
"""Longer than any part takes to notice it by an unanswered ping."""


@pytest.mark.promise("P1", "P3", "P4", "P7", "P8")
async def test_site_survives_loss_of_the_node_that_every_role_is_connected_to(
    site: ClusterSite,
) -> None:
    leader = await find_leader(site)
    node = next(each for each in site.nats.nodes if each is not leader)
    await gather_clients(site, node)
    leader = await find_leader(site)
    if leader is node:
        await move_leaders(site, next(each for each in site.nats.nodes if each is not node))
    await run_absence(site, node)


@pytest.mark.promise("P1", "P3", "P4", "P7", "P8")
async def test_site_survives_loss_of_a_follower_without_clients(site: ClusterSite) -> None:
    leader = await find_leader(site)
    node = next(each for each in site.nats.nodes if each is not leader)
    await send_clients_away(site, node)
    await run_absence(site, node)


@pytest.mark.promise("P1", "P3", "P4", "P7", "P8")
async def test_site_survives_loss_of_the_log_leader(site: ClusterSite) -> None:
    await run_absence(site, await find_leader(site))


@pytest.mark.promise("P1", "P3", "P4", "P7", "P8")
async def test_site_survives_loss_of_the_node_that_only_workers_are_connected_to(
    site: ClusterSite,
) -> None:
    # The consumer's leader still has their requests, and sends turns to a host that is gone.
    node, other, _ = site.nats.nodes
    await gather_workers(site, node)
    await move_leaders(site, other)
    await run_absence(site, node)


@pytest.mark.promise("P20")
async def test_roles_exit_cleanly_while_their_node_is_unreachable(site: ClusterSite) -> None:
    first, *_ = site.nats.nodes
    await gather_clients(site, first)
    async with cut_off_node(site, first):
        await site.roles.end_all()
        await site.roles.start_all()
        await require_ready(site)
    await require_no_harm(site)


async def run_absence(site: ClusterSite, node: NatsNode) -> None:
    """Run turns while a host is away, bring it back, and require that nothing is left of it."""
    async with site.run_load() as load:
        async with cut_off_node(site, node):
            # Turns go on all the time: what counts is the slowest of them.
            await asyncio.sleep(ABSENCE_SECONDS)
            await load.wait_for_turns()
        await load.wait_for_turns()
    await require_quick_turns(site, load, within=FAULT_TURN_BOUND)
    await require_no_harm(site)
