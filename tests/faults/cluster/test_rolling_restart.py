"""The nodes are restarted one after another, as an upgrade does, while clients submit turns."""

from __future__ import annotations

import signal

import pytest

from tests.faults.cluster.cluster_site import ClusterSite
from tests.faults.cluster.site_checks import require_no_harm, require_undisturbed
from tests.faults.cluster.site_faults import LAME_DUCK, restart_nodes_in_turn
from tests.faults.suite_extent import whole_programme

pytestmark = [whole_programme, pytest.mark.timeout(600)]


@pytest.mark.promise("P1", "P3", "P4", "P7")
@pytest.mark.parametrize("number", [signal.SIGTERM, LAME_DUCK], ids=["stopped", "lame duck"])
async def test_two_rolling_restarts_under_load_leave_every_worker_running(
    site: ClusterSite, number: signal.Signals
) -> None:
    for _ in range(2):
        async with site.run_load() as load:
            await restart_nodes_in_turn(site, number)
            await load.wait_for_turns()
        await require_undisturbed(site)
    await require_no_harm(site)
