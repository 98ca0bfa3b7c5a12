"""Limits of open turns: what the read models count, and what they have not folded yet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from turnlog.events.errors import Refused
from turnlog.projections.access.tenant_settings import TenantSettings
from turnlog.projections.store.read.open_turn_queries import OpenTurnCounts
from turnlog.services.tenants.open_turns import UNFOLDED_SECONDS, OpenTurnLimits

FIVE = TenantSettings(tenant="travel", max_open_turns=5)

NO_TURNS = OpenTurnCounts(0, 0, 0)

NO_WAITING = TenantSettings(tenant="travel", max_waiting_turns=2)


@dataclass
class FixedCounter:
    """Counts what the test says."""

    counts: OpenTurnCounts | None = NO_TURNS

    async def count_turns(self, tenant: str) -> OpenTurnCounts | None:
        del tenant
        return self.counts


async def admit(limits: OpenTurnLimits, stream_sequence: int | None = None) -> None:
    """Admit a turn of five, and note it at a stream sequence."""
    with limits.open_admission("travel") as admission:
        await admission.require_room(FIVE)
        assert limits.end_turn(admission)
        if stream_sequence is not None:
            limits.note_turn("travel", stream_sequence)


async def test_turns_that_are_not_folded_yet_count_once() -> None:
    counter = FixedCounter(OpenTurnCounts(3, 0, 10))
    limits = OpenTurnLimits(counter)
    await admit(limits, 11)
    await admit(limits, 12)
    with pytest.raises(Refused) as refused:
        await admit(limits)
    assert refused.value.code == "too-many-open-turns"
    counter.counts = OpenTurnCounts(4, 0, 12)  # Both are folded, and one is over.
    await admit(limits, 13)
    with pytest.raises(Refused):
        await admit(limits)


@dataclass
class GatedCounter:
    """Has each count wait until the test lets it end with what it says."""

    asked: asyncio.Queue[asyncio.Future[OpenTurnCounts]] = field(
        default_factory=asyncio.Queue[asyncio.Future[OpenTurnCounts]]
    )

    async def count_turns(self, tenant: str) -> OpenTurnCounts | None:
        del tenant
        answer: asyncio.Future[OpenTurnCounts] = asyncio.get_running_loop().create_future()
        self.asked.put_nowait(answer)
        return await answer


async def test_a_count_that_began_earlier_and_ends_later_misses_no_turn() -> None:
    counter = GatedCounter()
    limits = OpenTurnLimits(counter)
    limits.note_turn("travel", 11)
    earlier = asyncio.create_task(limits.count_active("travel"))
    later = asyncio.create_task(limits.count_active("travel"))
    old, new = await counter.asked.get(), await counter.asked.get()
    new.set_result(OpenTurnCounts(5, 0, 11))
    assert await later == OpenTurnCounts(5, 0, 11)
    old.set_result(OpenTurnCounts(4, 0, 10))
    assert await earlier == OpenTurnCounts(5, 0, 10)
    last = asyncio.create_task(limits.count_active("travel"))
    (await counter.asked.get()).set_result(OpenTurnCounts(5, 0, 11))
    assert await last == OpenTurnCounts(5, 0, 11)


async def test_turns_that_are_taken_at_the_same_time_count_for_each_other() -> None:
    limits = OpenTurnLimits(FixedCounter(OpenTurnCounts(4, 0, 0)))
    with limits.open_admission("travel") as first, limits.open_admission("travel") as second:
        await first.require_room(FIVE)
        await first.require_room(FIVE)  # Decided again after a conflict
        with pytest.raises(Refused):
            await second.require_room(FIVE)
    await admit(limits)


async def test_read_models_that_stand_refuse_nobody_for_ever() -> None:
    clock = [0.0]
    limits = OpenTurnLimits(FixedCounter(), lambda: clock[0])
    for place in range(5):
        await admit(limits, place + 1)
    with pytest.raises(Refused):
        await admit(limits)
    clock[0] = UNFOLDED_SECONDS + 1
    await admit(limits)


async def test_nobody_is_refused_while_turns_cannot_be_counted() -> None:
    limits = OpenTurnLimits(FixedCounter(None))
    for place in range(9):
        await admit(limits, place + 1)


async def test_waiting_turns_have_a_limit_of_their_own() -> None:
    counter = FixedCounter(OpenTurnCounts(900, 1, 0))
    limits = OpenTurnLimits(counter)
    with limits.open_admission("travel") as admission:
        await admission.require_room(NO_WAITING)
        counter.counts = OpenTurnCounts(0, 2, 0)
        with pytest.raises(Refused, match="wait for a person"):
            await admission.require_room(NO_WAITING)
        await admission.require_room(FIVE)
