"""A command is decided on the cached state, and corrected on the leader's state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.events.codec import CommandRef
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import CancelTurn, ExcludeTurn, RestoreTurn, SubmitTurn

ONE_AT_A_TIME = Policies(second_submit="reject")


@dataclass(kw_only=True)
class ReadCountingLog(MemoryLog):
    """A log that records what is read from it."""

    reads: list[str] = field(default_factory=list[str])

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        self.reads.append("last")
        return await super().read_last_event(tenant, session, leader=leader)

    async def read_events_at(
        self, tenant: str, stream_sequences: Sequence[int]
    ) -> Sequence[RecordedEvent]:
        self.reads.append("at")
        return await super().read_events_at(tenant, stream_sequences)

    async def read_range(
        self, tenant: str, session: str, after: ChainHead | None, upto: RecordedEvent
    ) -> Sequence[RecordedEvent]:
        self.reads.append("between")
        await asyncio.sleep(0)
        return await super().read_range(tenant, session, after, upto)


@dataclass(kw_only=True)
class LaggingLog(MemoryLog):
    """A log whose followers hold the events up to `upto`."""

    upto: RecordedEvent | None = None

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        if self.upto is not None and not leader:
            return self.upto
        return await super().read_last_event(tenant, session, leader=leader)


@dataclass(kw_only=True)
class CrossingLog(MemoryLog):
    """A log where something is appended, once, while the leader answers."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        found = await super().read_last_event(tenant, session, leader=leader)
        if leader and self.meanwhile:
            crossing, self.meanwhile = self.meanwhile, None
            await crossing()
        return found


@pytest.fixture
def log() -> ReadCountingLog:
    return ReadCountingLog()


@pytest.fixture
def house(log: ReadCountingLog) -> SessionHarness:
    return SessionHarness(log=log)


async def test_command_on_a_cached_state_reads_no_events(
    house: SessionHarness, log: ReadCountingLog
) -> None:
    await house.open_session()
    await house.run_turn(await house.submit_turn("One"))
    await house.load_state()
    log.reads.clear()
    await house.sessions.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    assert log.reads == []


async def test_worker_does_not_reread_messages_that_it_wrote(
    house: SessionHarness, log: ReadCountingLog
) -> None:
    await house.open_session()
    worker = house.build_worker()
    await house.run_turn(await house.submit_turn("One"), worker)
    log.reads.clear()
    await house.run_turn(await house.submit_turn("Two"), worker)
    assert "at" not in log.reads
    assert len(house.model.requests[-1].messages) > len(house.model.requests[0].messages)


async def test_command_is_not_refused_because_of_an_outdated_cached_state(
    house: SessionHarness,
) -> None:
    await house.open_session()
    gate = asyncio.Event()
    house.model.scripts.append([gate, "ok"])
    submitted = await house.submit_turn("One", policies=ONE_AT_A_TIME)
    answering = asyncio.create_task(house.run_turn(submitted))
    await house.wait_for_tokens(1)
    running = await house.load_state()
    assert running.open
    assert running.open.is_running
    gate.set()
    await answering
    again = await house.submit_turn("Two", policies=ONE_AT_A_TIME)
    assert again.sequence > running.head.sequence + 1


async def test_command_is_not_skipped_because_of_an_outdated_cached_state(
    house: SessionHarness,
) -> None:
    await house.open_session()
    await house.run_turn(await house.submit_turn("One"))
    await house.sessions.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    await house.build_command_handler("/test/other").handle(TENANT, "s", RestoreTurn(1), TESTER)
    done = await house.sessions.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    assert [recorded.event for recorded in done.events] != []
    assert (await house.load_state()).turns[0].excluded


async def test_command_key_used_in_another_process_is_applied_once(
    house: SessionHarness,
) -> None:
    await house.open_session()
    await house.load_state()
    key, submit = (
        CommandRef("key", compute_digest("body")),
        SubmitTurn(text="One", policies=Policies()),
    )
    first = await house.build_command_handler("/test/other").handle(
        TENANT, "s", submit, TESTER, key
    )
    again = await house.sessions.handle(TENANT, "s", submit, TESTER, key)
    assert again.events == ()
    assert again.memo
    assert again.memo.sequence == first.state.head.sequence
    with pytest.raises(Refused, match="different body"):
        await house.sessions.handle(
            TENANT, "s", submit, TESTER, CommandRef("key", compute_digest("other"))
        )


async def test_observed_event_is_applied_only_if_it_is_the_next_one(
    house: SessionHarness, log: ReadCountingLog
) -> None:
    await house.open_session()
    other = house.build_command_handler("/test/other")
    before = await other.require_state(TENANT, "s")
    events = [await house.submit_turn("One"), await house.submit_turn("Two")]
    log.reads.clear()
    other.apply_observed_event(events[1])
    assert other.state_cache.get_state(TENANT, "s") == before
    for event in (*events, events[0]):
        other.apply_observed_event(event)
    state = other.state_cache.get_state(TENANT, "s")
    assert state
    assert state.head == events[1].head
    assert log.reads == []


async def test_retry_of_a_partly_observed_command_gets_its_complete_result() -> None:
    log = CrossingLog()
    house = SessionHarness(log=log)
    await house.open_session()
    other = house.build_command_handler("/test/other")
    for text in ("One", "Two"):
        await house.submit_turn(text)
    await other.require_state(TENANT, "s")
    key, cancel = CommandRef("key", compute_digest("body")), CancelTurn(None)
    done: list[RecordedEvent] = []

    async def cancelled_elsewhere() -> None:
        done.extend((await house.sessions.handle(TENANT, "s", cancel, TESTER, key)).events)
        other.apply_observed_event(done[0])

    log.meanwhile = cancelled_elsewhere
    again = await other.handle(TENANT, "s", cancel, TESTER, key)
    assert len(done) > 1
    assert again.memo
    assert again.memo.sequence == done[-1].sequence


async def test_concurrent_loads_read_a_session_once(
    house: SessionHarness, log: ReadCountingLog
) -> None:
    await house.open_session()
    await house.run_turn(await house.submit_turn("One"))
    other = house.build_command_handler("/test/other")
    log.reads.clear()
    states = await asyncio.gather(*(other.require_state(TENANT, "s") for _ in range(20)))
    assert log.reads.count("between") == 1
    assert len({id(state) for state in states}) == 1


async def test_command_is_not_refused_because_of_a_lagging_follower() -> None:
    log = LaggingLog()
    house = SessionHarness(log=log)
    await house.open_session()
    submitted = await house.submit_turn("One")
    log.upto = submitted
    await house.run_turn(submitted)
    another_gateway = house.build_command_handler("/test/another")
    await another_gateway.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    assert house.list_event_names()[-1] == "turn-excluded"
    log.upto = house.list_events()[-1]
    await house.sessions.handle(TENANT, "s", RestoreTurn(1), TESTER)
    a_third = house.build_command_handler("/test/third")
    await a_third.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    assert house.list_event_names()[-1] == "turn-excluded"
