"""A site of the documented shape for each test of the whole programme."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.cluster.cluster_site import ClusterSite, SiteShape, run_site
from tests.faults.cluster.site_checks import require_undisturbed


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[ClusterSite]:
    """A site that nobody has used yet."""
    async with run_site(tmp_path, SiteShape()) as running:
        await require_undisturbed(running)
        running.roles.forget_exits()  # `test_site_start` asks about them.
        yield running
