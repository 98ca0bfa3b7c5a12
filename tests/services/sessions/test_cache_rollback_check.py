"""A process does not use cached state of a log that was rolled back or replaced."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.events.errors import Corrupt
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import SubmitTurn
from turnlog.services.sessions.cache_rollback_check import check_log_identity

QUEUES = Policies.model_validate({"second_submit": "queue"})


def roll_back(log: MemoryLog, to: int) -> None:
    del log.stored[to:]
    for places in log.sessions.values():
        places[:] = [place for place in places if place <= to]


async def run_session(turns: int = 2) -> SessionHarness:
    house = SessionHarness()
    await house.open_session()
    for turn in range(turns):
        await house.submit_turn(f"turn {turn}", policies=QUEUES)
    return house


async def submit_from_other_process(house: SessionHarness, text: str) -> None:
    """Submit a turn from another process, which has no cached state."""
    command = SubmitTurn(text=text, policies=QUEUES)
    await house.build_command_handler("/test/other").handle(TENANT, "s", command, TESTER)


@pytest.mark.parametrize("to", [0, 1, 2])
async def test_cached_session_that_ends_earlier_in_the_log_is_corrupt(to: int) -> None:
    house = await run_session()
    roll_back(house.log, to)
    with pytest.raises(Corrupt, match=f"it ends at {to} but had reached 3.*turnlog rebuild"):
        await house.sessions.load_state(TENANT, "s")
    with pytest.raises(Corrupt):
        await house.submit_turn("behind another history", policies=QUEUES)
    assert len(house.log.stored) == to


@pytest.mark.parametrize("more", [1, 2])
async def test_cached_session_with_a_different_continuation_is_corrupt(more: int) -> None:
    house = await run_session()
    roll_back(house.log, 2)
    for number in range(more):
        await submit_from_other_process(house, f"another history {number}")
    with pytest.raises(Corrupt):
        await house.sessions.load_state(TENANT, "s")


async def test_uncached_session_is_loaded_as_the_log_has_it() -> None:
    house = await run_session()
    roll_back(house.log, 2)
    state = await house.build_command_handler("/test/anew").require_state(TENANT, "s")
    assert state.head.sequence == 2


async def test_log_without_the_latest_cached_event_is_corrupt() -> None:
    house = await run_session()
    await house.open_session("other")
    await check_log_identity(house.sessions, seconds=0)
    lost = house.log.stored[3]
    roll_back(house.log, 3)
    with pytest.raises(Corrupt, match="stream position 4 holds another event"):
        await check_log_identity(house.sessions, seconds=0)
    looking = asyncio.create_task(check_log_identity(house.sessions, seconds=60))
    await asyncio.sleep(0)
    house.log.stored.append(lost)
    await looking


async def test_log_check_passes_without_cached_sessions() -> None:
    house = await run_session()
    roll_back(house.log, 0)
    await check_log_identity(house.build_command_handler("/test/anew"), seconds=0)
