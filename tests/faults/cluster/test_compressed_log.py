"""A log that an earlier release wrote with `compression: s2` is taken over.

On several nodes no file of a stream may be compressed: nats-server 2.15.1 loses it at a power loss.
A single server does not, and saves a third of the disk.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.attacked_service import run_attacked_service
from tests.faults.attacks import kill_everything
from tests.faults.checks.evidence_collection import assert_no_findings
from tests.faults.clients.client_history import ClientHistory
from tests.faults.clients.client_load import run_load
from tests.faults.cluster.cluster_site import ClusterSite
from tests.faults.cluster.site_checks import (
    DURABLE_STREAMS,
    require_no_harm,
    require_undisturbed,
    require_verified_log,
)
from tests.faults.cluster.site_faults import (
    BLOCK_BYTES,
    fetch_compression,
    grow_sessions,
    lose_node_power,
    restart_nodes_in_turn,
    set_compression,
)
from tests.faults.suite_extent import whole_programme

pytestmark = [whole_programme, pytest.mark.timeout(900)]


@pytest.mark.promise("P1", "P9")
async def test_compressed_log_of_several_nodes_is_written_uncompressed_after_a_restart(
    site: ClusterSite,
) -> None:
    async with site.open_nats() as connection:
        await set_compression(connection, "s2")
    await grow_sessions(site, BLOCK_BYTES * 5 // 4)
    await site.roles.end_all()
    await site.roles.start_all()
    await require_undisturbed(site)
    async with site.open_nats() as connection:
        assert await fetch_compression(connection) == dict.fromkeys(DURABLE_STREAMS, "none")
    async with site.run_load() as load:
        await restart_nodes_in_turn(site)
        await load.wait_for_turns()
        await lose_node_power(site)
        await load.wait_for_turns()
    await require_no_harm(site)


@pytest.mark.promise("P1", "P9")
async def test_compressed_log_of_a_single_server_stays_compressed(
    tmp_path: Path, history: ClientHistory
) -> None:
    async with run_attacked_service(tmp_path) as attacked:
        await set_compression(attacked.service.nats.connection, "s2")
        async with run_load(attacked, history) as load:
            await kill_everything(attacked)
            await attacked.start_missing()
            await load.wait_for_turns()
        found = await fetch_compression(attacked.service.nats.connection)
        assert found == dict.fromkeys(DURABLE_STREAMS, "s2")
        await require_verified_log(attacked.service.http)
        await assert_no_findings(attacked, history)
