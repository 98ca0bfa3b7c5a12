"""Without its database the service answers turns, and the rows catch up later."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from tests.faults.cluster.cluster_site import ClusterSite
from tests.faults.cluster.site_checks import FAULT_TURN_BOUND, require_no_harm, require_quick_turns
from tests.faults.suite_extent import whole_programme

pytestmark = [whole_programme, pytest.mark.timeout(600)]

OUTAGE_SECONDS: Final = 15.0
"""Longer than any role waits for one answer of the database."""


@pytest.mark.promise("P1", "P7", "P10")
async def test_turns_complete_while_the_database_hangs(site: ClusterSite) -> None:
    async with site.run_load() as load:
        site.postgres.suspend_server()
        try:
            await asyncio.sleep(OUTAGE_SECONDS)
            await load.wait_for_turns()
        finally:
            site.postgres.resume_server()
    await require_quick_turns(site, load, within=FAULT_TURN_BOUND)
    await require_no_harm(site)


@pytest.mark.promise("P1", "P7", "P10")
async def test_turns_complete_while_the_database_is_down(site: ClusterSite) -> None:
    async with site.run_load() as load:
        await asyncio.to_thread(site.postgres.kill_server)
        await asyncio.sleep(OUTAGE_SECONDS)
        await load.wait_for_turns()
        await asyncio.to_thread(site.postgres.start_server)
    await require_quick_turns(site, load, within=FAULT_TURN_BOUND)
    await require_no_harm(site)
