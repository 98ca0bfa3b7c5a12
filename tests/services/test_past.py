"""Reading earlier states, with interval snapshots and without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from tests.parts.house import TENANT, House
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import HistorySource
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.audit.explain.part_provenance import build_event_ref
from turnlog.projections.audit.explain.turn_explanation import explain_call
from turnlog.projections.audit.record.partial_log import build_complete_log
from turnlog.projections.audit.verify.prompt_reproduction import reproduce_by_assembly
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.history.history_selection import OUT_OF_REACH
from turnlog.projections.prompt.readback import list_referenced_blobs, read_prompt, read_tools
from turnlog.projections.session.commands import ExcludeTurn, RedactReply
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState
from turnlog.services.sessions.command_handler import CommandMetadata
from turnlog.services.sessions.session_snapshots import (
    INTERVAL_LENGTH,
    CheckedSnapshotStore,
    IntervalSnapshots,
    remove_command_keys,
)
from turnlog.services.sessions.time_travel import TimeTravel

TURNS = 100
MOST_OF_A_BATCH = 8
"""Events by which one append may exceed an interval snapshot."""


@dataclass
class CountedLog(MemoryLog):
    """A log that counts the events read from sessions; its replica may lag behind."""

    read: int = 0
    lag: int = 0

    async def read_next_events(
        self, tenant: str, session: str, after: ChainHead | None, count: int
    ) -> list[RecordedEvent]:
        events = [*await super().read_next_events(tenant, session, after, count)]
        self.read += len(events)
        return events[: len(events) - self.lag]


@dataclass
class Rows:
    """Takes the place of the read models."""

    known: dict[str, int] = field(default_factory=dict[str, int])

    async def find_call_sequence(self, tenant: str, session: str, call: str) -> int | None:
        del tenant, session
        return self.known.get(call)


def past(house: House, rows: Rows | None = None) -> TimeTravel:
    """Give the past as a process reads it that has seen nothing yet."""
    sessions = house.sessions_of("/test/auditor")
    gathering = house.contexts(sessions).gathering
    return TimeTravel(sessions, house.blueprints, gathering, rows or Rows())


@pytest.fixture(scope="module")
def built() -> House:
    """A long session with some excluded turns and withheld replies."""
    return asyncio.run(talked())


async def talked() -> House:
    house = House(log=CountedLog())
    await house.open()
    worker = house.worker()
    for turn in range(1, TURNS + 1):
        house.model.scripts.append([f"Reply {turn}."])
        await house.answer(await house.submit(f"Turn {turn}"), worker)
        if turn % 10 == 0:
            await house.sessions.handle(
                TENANT, "s", ExcludeTurn(turn - 3), CommandMetadata("tester")
            )
        if turn % 15 == 0:
            withheld = RedactReply(turn - 1, "asked for", "operator", "(Withheld.)")
            await house.sessions.handle(TENANT, "s", withheld, CommandMetadata("tester"))
    return house


@pytest.fixture
def house(built: House) -> Iterator[House]:
    """The same for each test, whatever became of its snapshots."""
    held = dict(built.snapshots.snapshots)
    yield built
    built.snapshots.snapshots = held


def fixed(house: House) -> dict[str, tuple[RecordedEvent, ContextAssembled]]:
    said = ((each, each.event) for each in house.events())
    return {call.call: (each, call) for each, call in said if isinstance(call, ContextAssembled)}


def then(house: House, at: int) -> SessionState:
    state = fold(house.events()[:at])
    assert state
    return remove_command_keys(state)


def log_of(house: House) -> CountedLog:
    assert isinstance(house.log, CountedLog)
    return house.log


async def test_the_state_at_a_sequence_is_that_of_the_events_up_to_it(house: House) -> None:
    last = len(house.events())
    reader = past(house)
    around = {
        1,
        2,
        INTERVAL_LENGTH - 1,
        INTERVAL_LENGTH,
        INTERVAL_LENGTH + 1,
        2 * INTERVAL_LENGTH,
        last - 1,
        last,
    }
    for at in sorted(around | {*range(7, last, 163)}):
        assert await reader.load_state(TENANT, "s", at) == then(house, at)


async def test_to_come_to_any_sequence_takes_no_more_than_one_stretch(house: House) -> None:
    last = len(house.events())
    for at in (5, INTERVAL_LENGTH + 90, last - 200, last):
        log_of(house).read = 0
        await past(house).load_state(TENANT, "s", at)
        assert log_of(house).read <= INTERVAL_LENGTH + MOST_OF_A_BATCH


async def test_a_session_without_waypoints_is_read_whole_once_and_has_them_then(
    house: House,
) -> None:
    last = len(house.events())
    house.snapshots.snapshots.clear()
    assert await past(house).load_state(TENANT, "s", last - 20) == then(house, last - 20)
    log_of(house).read = 0
    assert await past(house).load_state(TENANT, "s", last - 30) == then(house, last - 30)
    assert log_of(house).read <= INTERVAL_LENGTH + MOST_OF_A_BATCH


async def test_a_waypoint_of_other_events_is_not_used(house: House) -> None:
    checked = CheckedSnapshotStore(house.log, house.snapshots)
    good = await checked.load_state(TENANT, "s", 1)
    assert good
    other = replace(good, head=replace(good.head, hash=Digest("sha256:" + "0" * 64)), submitted=999)
    await IntervalSnapshots(checked).save_state(other)
    at = INTERVAL_LENGTH + 10
    assert await past(house).load_state(TENANT, "s", at) == then(house, at)


async def test_a_waypoint_holds_no_text_and_no_key(house: House) -> None:
    checked = CheckedSnapshotStore(house.log, house.snapshots)
    state = await checked.load_state(TENANT, "s", 1)
    assert state
    assert "Reply" not in repr(state)
    assert state.commands == ()


@pytest.mark.parametrize("known", [True, False], ids=["by the rows", "without rows"])
@pytest.mark.parametrize("call", ["1.1", "61.1", "100.1"])
async def test_a_call_is_read_back_and_assembled_again_from_what_is_near_it(
    house: House, call: str, *, known: bool
) -> None:
    recorded, said = fixed(house)[call]
    reader = past(house, Rows({call: recorded.sequence} if known else {}))
    moment = await reader.find_call(TENANT, "s", call)
    assert moment.recorded == recorded
    events = await reader.load_referenced_events(moment)
    blobs = await reader.command_handler.texts.read_blobs(
        TENANT, list_referenced_blobs(said.manifest)
    )
    messages = read_prompt(said.manifest, events, blobs)
    request = ChatRequest(said.model, messages, read_tools(said.manifest, blobs), said.parameters)
    assert request.digest == said.manifest.digest
    assert reproduce_by_assembly(await reader.load_assembly_inputs(moment)).outcome == "reproduced"


async def test_only_the_events_of_its_window_are_read_for_a_call(house: House) -> None:
    recorded, _ = fixed(house)["90.1"]
    reader = past(house, Rows({"90.1": recorded.sequence}))
    log_of(house).read = 0
    moment = await reader.find_call(TENANT, "s", "90.1")
    await reader.load_referenced_events(moment)
    await reader.load_assembly_inputs(moment)
    assert log_of(house).read <= INTERVAL_LENGTH + MOST_OF_A_BATCH


async def test_what_a_replica_does_not_have_yet_is_found_all_the_same(house: House) -> None:
    log_of(house).lag = 3
    try:
        for at in (2, INTERVAL_LENGTH + 90):
            assert await past(house).load_state(TENANT, "s", at) == then(house, at)
    finally:
        log_of(house).lag = 0


async def test_rows_that_are_wrong_cost_time_and_nothing_else(house: House) -> None:
    recorded, _ = fixed(house)["37.1"]
    for wrong in (recorded.sequence - 1, 1, 99_999):
        moment = await past(house, Rows({"37.1": wrong})).find_call(TENANT, "s", "37.1")
        assert moment.recorded == recorded


async def test_a_call_that_was_never_made_is_refused(house: House) -> None:
    with pytest.raises(Refused) as refused:
        await past(house).find_call(TENANT, "s", "37.2")
    assert refused.value.code == "unknown-call"


async def test_turns_that_no_window_reaches_any_more_are_told_as_one_run_with_one_event() -> None:
    house = House()
    await house.open()
    for _ in range(8):
        house.model.scripts.append(["Long. " * 1_000])
        await house.answer(await house.submit("Go on."))
    recorded, call = fixed(house)["8.1"]
    (run,) = (part.source for part in call.manifest.parts if part.rule == OUT_OF_REACH)
    assert isinstance(run, HistorySource)
    assert run.last > run.first
    parts = explain_call(build_complete_log(house.events()), "8.1").parts
    removed = [gone for part in parts for gone in part.removed]
    told = [(gone.first, gone.last, gone.by) for gone in removed if gone.rule == OUT_OF_REACH]
    assert told == [(run.first, run.last, build_event_ref(recorded))]
