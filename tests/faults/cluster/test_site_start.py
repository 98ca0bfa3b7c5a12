"""All roles of a site start at the same time, on nodes that have nothing yet."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from tests.faults.cluster.cluster_site import SiteShape, run_site
from tests.faults.cluster.network_namespaces import can_make_namespaces
from tests.faults.cluster.site_checks import (
    require_no_unexpected_exit,
    require_undisturbed,
    require_whole,
)
from tests.faults.cluster.site_network import NetworkForm
from tests.faults.suite_extent import whole_programme

pytestmark = [whole_programme, pytest.mark.timeout(300)]


@pytest.mark.parametrize("form", get_args(NetworkForm))
async def test_roles_that_start_together_on_an_empty_cluster_do_not_restart(
    tmp_path: Path, form: NetworkForm
) -> None:
    if form == "namespaces" and not can_make_namespaces():
        pytest.skip("this process may not make network namespaces")
    async with run_site(tmp_path, SiteShape(network=form)) as site:
        await require_undisturbed(site)
        require_no_unexpected_exit(site)
        await require_whole(site)
