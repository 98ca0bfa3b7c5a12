"""A service under load is attacked in every way, and keeps every promise."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.faults.attacked_service import AttackedService, run_attacked_service
from tests.faults.attacks import ATTACKS, Attack, kill_everything
from tests.faults.checks.evidence_collection import assert_no_findings
from tests.faults.clients.client_history import ClientHistory
from tests.faults.clients.client_load import run_load
from tests.faults.suite_extent import KILL_ROUNDS, select_rows
from tests.support.processes.process_host import find_free_port

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
    pytest.mark.slow("processes are attacked and have to recover"),
]

SUITE = (
    "gateway killed",
    "worker told nothing any more",
    "nats killed",
    "store full",
    "durable deleted",
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def attacked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AttackedService]:
    """A site whose collector of traces is down, as it may be."""
    variables = {"TURNLOG_OTLP_ENDPOINT": f"http://127.0.0.1:{find_free_port()}"}
    async with run_attacked_service(tmp_path_factory.mktemp("site"), variables) as running:
        yield running


@pytest.mark.promise("P1", "P3", "P4", "P6", "P7", "P8", "P9", "P10", "P12")
@pytest.mark.parametrize(
    "attack", select_rows(ATTACKS, SUITE).values(), ids=select_rows(ATTACKS, SUITE)
)
async def test_attack_breaks_no_promise(
    attacked: AttackedService, history: ClientHistory, attack: Attack
) -> None:
    async with run_load(attacked, history) as load:
        await attack(attacked)
        await attacked.start_missing()
        await load.wait_for_turns()
    await assert_no_findings(attacked, history)


@pytest.mark.promise("P1")
async def test_repeated_kills_of_every_process_break_no_promise(
    attacked: AttackedService, history: ClientHistory
) -> None:
    async with run_load(attacked, history) as load:
        for _ in range(KILL_ROUNDS):
            await kill_everything(attacked)
            await attacked.start_missing()
            await load.wait_for_turns()
    await assert_no_findings(attacked, history)
