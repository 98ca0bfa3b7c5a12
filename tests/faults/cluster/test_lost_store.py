"""A node loses its store, comes back empty, and is then as good as the others."""

from __future__ import annotations

import signal

import pytest

from tests.faults.cluster.cluster_site import ClusterSite
from tests.faults.cluster.site_checks import require_no_harm, require_undisturbed
from tests.faults.cluster.site_faults import find_leader, move_leaders
from tests.faults.suite_extent import whole_programme

pytestmark = [whole_programme, pytest.mark.timeout(600)]


@pytest.mark.promise("P1", "P3", "P4", "P7")
async def test_node_that_lost_its_store_can_lead_every_stream_later(site: ClusterSite) -> None:
    async with site.run_load() as load:
        node = await find_leader(site)
        await node.end_process(signal.SIGKILL)
        node.remove_store()
        await node.start_process()
        await load.wait_for_turns()
    await require_undisturbed(site)
    async with site.run_load() as load:
        await move_leaders(site, node)
        await load.wait_for_turns()
    await require_no_harm(site)
