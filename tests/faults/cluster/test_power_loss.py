"""All nodes lose their power at once, and what was acknowledged is there afterwards.

What nats-server does after an unclean start depends on what it wrote before: a raft snapshot, which
a clean stop leaves, and the files of a stream, one for each eight megabytes. And what it did wrong
shows late: once its cache has expired and a file is read again, and at the next start.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.faults.cluster.cluster_site import ClusterSite
from tests.faults.cluster.site_checks import require_no_harm, require_undisturbed
from tests.faults.cluster.site_faults import (
    BLOCK_BYTES,
    CACHE_SECONDS,
    grow_sessions,
    lose_node_power,
    lose_site_power,
    restart_all_nodes,
)
from tests.faults.suite_extent import whole_programme

pytestmark = [whole_programme, pytest.mark.timeout(900)]


@pytest.mark.promise("P1", "P3", "P4", "P7", "P9")
async def test_three_power_losses_of_the_nodes_lose_nothing(site: ClusterSite) -> None:
    for _ in range(3):
        await restart_all_nodes(site)
        async with site.run_load() as load:
            await load.wait_for_turns()
            await lose_node_power(site)
            await load.wait_for_turns()
        await require_sound_files(site)


@pytest.mark.promise("P1", "P3", "P4", "P7", "P9")
async def test_power_loss_of_the_whole_site_loses_nothing(site: ClusterSite) -> None:
    await restart_all_nodes(site)
    async with site.run_load() as load:
        await load.wait_for_turns()
        await lose_site_power(site)
        await load.wait_for_turns()
    await require_sound_files(site)


@pytest.mark.promise("P1", "P3", "P4", "P7", "P9")
async def test_power_loss_after_a_log_file_was_filled_loses_nothing(
    site: ClusterSite,
) -> None:
    # The snapshot is of the first file, and that one is full when the power goes: the server
    # truncates the log to the snapshot and takes what is missing from the raft log.
    await grow_sessions(site, BLOCK_BYTES * 3 // 4)
    await restart_all_nodes(site)
    await grow_sessions(site, BLOCK_BYTES * 5 // 4)
    async with site.run_load() as load:
        await lose_node_power(site)
        await load.wait_for_turns()
    await require_sound_files(site)


async def require_sound_files(site: ClusterSite) -> None:
    """Require that the log goes on when its files are read again, and after a clean start."""
    await require_undisturbed(site)
    await asyncio.sleep(CACHE_SECONDS)
    async with site.run_load() as load:
        await load.wait_for_turns()
    await restart_all_nodes(site)
    await require_no_harm(site)
