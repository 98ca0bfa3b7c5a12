"""The faults of a cluster in a minute, on one small site behind proxies.

The other files of this folder have each fault in full, on a site that the fault finds untouched.
Here one site meets them one after another.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.faults.cluster.cluster_site import ClusterSite, SiteShape, run_site
from tests.faults.cluster.site_checks import (
    READY_BOUND,
    require_no_harm,
    require_no_unexpected_exit,
    require_quick_turns,
    require_ready,
    require_undisturbed,
)
from tests.faults.cluster.site_faults import (
    cut_off_node,
    find_gateway_node,
    lose_node_power,
    restart_all_nodes,
    restart_nodes_in_turn,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
    pytest.mark.slow("processes are attacked and have to recover"),
]

CLIENTS: Final = 4

BUSY_TURN_BOUND: Final = 30.0
"""Seconds that a turn may take while a host is gone and other tests use the same two cores; of a
service that does not notice it, a turn takes minutes.
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def small_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ClusterSite]:
    # A delivery that is lost on its way is repeated sooner than in the whole programme.
    settings = {"TURNLOG_ACK_WAIT": "5"}
    shape = SiteShape(workers=1, projectors=1, network="proxies", settings=settings)
    async with run_site(tmp_path_factory.mktemp("site"), shape) as running:
        await require_undisturbed(running)
        running.roles.forget_exits()
        yield running


@pytest.mark.promise("P1", "P7", "P9")
async def test_power_loss_after_a_rolling_restart_loses_nothing(small_site: ClusterSite) -> None:
    async with small_site.run_load(CLIENTS) as load:
        # A node that stops in good order leaves a raft snapshot of each stream.
        await restart_nodes_in_turn(small_site)
        await load.wait_for_turns()
    await require_undisturbed(small_site)
    async with small_site.run_load(CLIENTS) as load:
        await lose_node_power(small_site)
        await load.wait_for_turns()
    # A server that has just started has no cache: it reads its files again.
    await restart_all_nodes(small_site)
    await require_no_harm(small_site)


@pytest.mark.promise("P2", "P7")
async def test_roles_are_ready_and_start_while_the_first_node_is_down(
    small_site: ClusterSite,
) -> None:
    first, *_ = small_site.nats.nodes
    projector, *_ = small_site.roles.list_roles("projector")
    await first.end_process(signal.SIGTERM)
    await projector.end_supervised()
    await projector.start_supervised()
    await require_ready(small_site, within=READY_BOUND)
    require_no_unexpected_exit(small_site)
    await first.start_process()
    await require_no_harm(small_site)


@pytest.mark.promise("P1", "P7", "P8")
async def test_vanished_host_delays_turns_by_seconds_only(small_site: ClusterSite) -> None:
    node = await find_gateway_node(small_site)
    async with small_site.run_load(CLIENTS) as load:
        async with cut_off_node(small_site, node):
            await load.wait_for_turns()
        await load.wait_for_turns()
    await require_quick_turns(small_site, load, within=BUSY_TURN_BOUND)
    await require_no_harm(small_site)
