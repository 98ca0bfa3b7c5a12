"""A service under load is attacked in every way, and keeps every promise."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.faults.attacks import ATTACKS, Attack, everything_killed
from tests.faults.evidence import nothing_is_wrong
from tests.faults.extent import ROUNDS, rows
from tests.faults.history import History
from tests.faults.load import load
from tests.faults.site import Site, site
from tests.parts.processes import free_port

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

SUITE = (
    "gateway killed",
    "gateway told nothing any more",
    "projector told nothing any more",
    "worker told nothing any more",
    "worker not heard any more",
    "answers lost and gateway killed",
    "nats killed",
    "nats hangs",
    "store full",
    "durable deleted",
    "tokens forgotten",
    "worker's clock an hour ahead",
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def attacked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A site whose collector of traces is down, as it may be."""
    nowhere = {"TURNLOG_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    async with site(tmp_path_factory.mktemp("site"), nowhere) as running:
        yield running


@pytest.mark.promise("P1", "P3", "P4", "P6", "P7", "P8", "P9", "P10", "P12")
@pytest.mark.parametrize("attack", rows(ATTACKS, SUITE).values(), ids=rows(ATTACKS, SUITE))
async def test_an_attack_breaks_no_promise(
    attacked: Site, history: History, attack: Attack
) -> None:
    async with load(attacked, history) as talking:
        await attack(attacked)
        await attacked.start_missing()
        await talking.goes_on()
    await nothing_is_wrong(attacked, history)


@pytest.mark.promise("P1")
async def test_everything_is_killed_again_and_again(attacked: Site, history: History) -> None:
    async with load(attacked, history) as talking:
        for _ in range(ROUNDS):
            await everything_killed(attacked)
            await attacked.start_missing()
            await talking.goes_on()
    await nothing_is_wrong(attacked, history)
