"""Two of three nodes are gone for a while: nothing is lost, and no role raises an alarm."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

import pytest

from tests.faults.cluster.cluster_site import ClusterSite
from tests.faults.cluster.site_checks import (
    find_rollback_words,
    record_readiness,
    require_no_harm,
)
from tests.faults.cluster.site_faults import find_leader
from tests.faults.suite_extent import whole_programme

pytestmark = [whole_programme, pytest.mark.timeout(600)]

OUTAGE_SECONDS: Final = 15.0
"""Longer than a role waits for a log that seems too short before it calls it rolled back."""


@pytest.mark.promise("P1", "P3", "P4", "P7")
@pytest.mark.parametrize("survivor", ["leader", "follower"])
async def test_lost_quorum_is_never_reported_as_a_rolled_back_log(
    site: ClusterSite, survivor: str
) -> None:
    async with site.run_load() as load:
        leader = await find_leader(site)
        followers = [node for node in site.nats.nodes if node is not leader]
        lost = followers if survivor == "leader" else [leader, followers[0]]
        async with record_readiness(site) as reported:
            await asyncio.gather(*(node.end_process(signal.SIGKILL) for node in lost))
            await asyncio.sleep(OUTAGE_SECONDS)
            await site.nats.start_missing_nodes()
            await load.wait_for_turns()
    assert find_rollback_words("\n".join(reported)) == []
    await require_no_harm(site)
