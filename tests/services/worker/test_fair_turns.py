"""A tenant's first turn does not wait behind the queue of another tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.direct_get import StoredMessage
from turnlog.services.worker.fair_turns import LIST_SECONDS, LOOK_SECONDS, FairTurns


@dataclass
class ListedQueue:
    """Turns in the order of their submission; the place of each is its stream sequence, from 1."""

    turns: list[str]
    looks: list[str] = field(default_factory=list[str])

    async def find_next_turn(self, tenant: str, after: int) -> StoredMessage | None:
        self.looks.append(tenant)
        for place, each in enumerate(self.turns, 1):
            if each == tenant and place > after:
                return StoredMessage(f"session.{each}.s.turn.submitted", place, "", b"")
        return None


class Worker:
    """A worker with slots that get turns in their order, and end them when the test says so."""

    def __init__(self, queue: ListedQueue, slots: int, *known: str) -> None:
        self.queue, self.now = queue, 0.0
        self.started: list[str] = []
        """The tenants whose turns were started, in order."""
        self._ends: list[asyncio.Event] = []
        self._done: set[int] = set()
        self._next = 0

        async def list_tenants() -> Collection[str]:
            return known

        self.fair = FairTurns(
            slots=slots, queue=queue, list_tenants=list_tenants, monotonic=lambda: self.now
        )
        self.slots = slots

    async def run(self) -> None:
        """Run all turns of the queue, each ending when the next one cannot start otherwise."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self.slots):
                tasks.create_task(self._run_slot())

    async def _run_slot(self) -> None:
        while self._next < len(self.queue.turns):
            self._next += 1
            place = self._next
            tenant = self.queue.turns[place - 1]
            async with self.fair.run_fairly(tenant, place, self.run_other, is_repeated=False):
                await self._run_turn(tenant, place)

    async def run_other(self, message: StoredMessage) -> None:
        await self._run_turn(message.subject.split(".")[1], message.stream_sequence)

    async def _run_turn(self, tenant: str, place: int) -> None:
        if place in self._done:
            return  # It was run before its delivery.
        self._done.add(place)
        self.started.append(tenant)
        self.now += LIST_SECONDS
        await asyncio.sleep(0)


async def test_first_turn_of_a_tenant_runs_at_the_next_free_slot() -> None:
    worker = Worker(ListedQueue(["a"] * 1000 + ["b"]), 4, "a", "b")
    await worker.run()
    assert worker.started.index("b") <= 4
    assert (worker.started.count("a"), worker.started.count("b")) == (1000, 1)


async def test_one_slot_alternates_between_tenants_that_wait() -> None:
    worker = Worker(ListedQueue(["a"] * 6 + ["b"] * 3 + ["c"] * 3), 1, "a", "b", "c")
    await worker.run()
    assert "".join(worker.started) == "abcabcabcaaa"


async def test_tenants_with_queues_share_the_slots_equally() -> None:
    worker = Worker(ListedQueue(["a"] * 300 + ["b"] * 100), 4, "a", "b")
    await worker.run()
    until_b_is_done = worker.started[: 399 - worker.started[::-1].index("b")]
    assert abs(until_b_is_done.count("a") - until_b_is_done.count("b")) <= 4


async def test_nobody_is_looked_for_while_a_slot_is_free() -> None:
    queue = ListedQueue(["a", "b", "a"])
    fair = Worker(queue, 2, "a", "b").fair

    async def fail(message: StoredMessage) -> None:
        raise AssertionError(message)

    async with fair.run_fairly("a", 1, fail, is_repeated=False):
        assert queue.looks == []


async def test_tenant_without_turns_is_looked_for_once_in_a_while() -> None:
    queue = ListedQueue(["a"] * 20)
    worker = Worker(queue, 1, "a", "b")

    async def fail(message: StoredMessage) -> None:
        raise AssertionError(message)

    for place in range(1, 6):
        async with worker.fair.run_fairly("a", place, fail, is_repeated=False):
            pass
    assert queue.looks == ["b"]
    worker.now = LOOK_SECONDS
    async with worker.fair.run_fairly("a", 6, fail, is_repeated=False):
        pass
    assert queue.looks == ["b", "b"]


async def test_what_is_delivered_again_says_nothing_of_the_queue() -> None:
    queue = ListedQueue(["b", "a"])
    worker = Worker(queue, 1, "a", "b")
    async with worker.fair.run_fairly("a", 2, worker.run_other, is_repeated=True):
        assert queue.looks == []


async def test_two_slots_do_not_choose_the_same_turn() -> None:
    worker = Worker(ListedQueue(["a", "a", "a", "a", "b"]), 2, "a", "b")
    chosen: list[int] = []

    async def run_other(message: StoredMessage) -> None:
        chosen.append(message.stream_sequence)
        await asyncio.sleep(0)

    async with AsyncExitStack() as held:
        hold = worker.fair.run_fairly
        await held.enter_async_context(hold("a", 1, run_other, is_repeated=False))
        await held.enter_async_context(hold("a", 2, run_other, is_repeated=False))
        worker.now = LOOK_SECONDS
        await held.enter_async_context(hold("a", 3, run_other, is_repeated=False))
    assert chosen == [5]


@pytest.mark.parametrize("slots", [1, 2, 5])
async def test_every_turn_runs_once_whatever_the_order(slots: int) -> None:
    turns = [*"aaaaabbbcaaadbbbbaaaacccdaaaa"]
    worker = Worker(ListedQueue(turns), slots, *"abcd")
    await worker.run()
    assert sorted(worker.started) == sorted(turns)


async def test_a_queue_that_cannot_be_read_holds_up_no_slot() -> None:
    class LostQueue(ListedQueue):
        async def find_next_turn(self, tenant: str, after: int) -> StoredMessage | None:
            await super().find_next_turn(tenant, after)
            raise Unavailable("nats", "it is lost")

    queue = LostQueue(["a"] * 9)
    worker = Worker(queue, 1, "a", "b")
    for place in range(1, 4):
        async with worker.fair.run_fairly("a", place, worker.run_other, is_repeated=False):
            pass
    assert queue.looks == ["b"]
    worker.now = LIST_SECONDS
    async with worker.fair.run_fairly("a", 4, worker.run_other, is_repeated=False):
        pass
    assert queue.looks == ["b", "b"]
