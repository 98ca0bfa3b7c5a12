"""Reading earlier states, with interval snapshots and without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from tests.support.sessions.session_harness import TENANT, SessionHarness
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import HistorySource
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.audit.explain.part_provenance import build_event_ref
from turnlog.projections.audit.explain.turn_explanation import explain_call
from turnlog.projections.audit.record.partial_log import build_complete_log
from turnlog.projections.audit.record.prompt_readback import (
    list_referenced_blobs,
    read_prompt,
    read_tools,
)
from turnlog.projections.audit.verify.prompt_reproduction import reproduce_by_assembly
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.history.excluded_turns import OUT_OF_REACH
from turnlog.projections.session.commands import ExcludeTurn
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.services.caches.session_snapshots import (
    INTERVAL_LENGTH,
    CheckedSnapshotStore,
    IntervalSnapshots,
    remove_command_keys,
)
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.sessions.time_travel import TimeTravel

TURNS = 100

MOST_OF_A_BATCH = 8
"""Events by which one append may exceed an interval snapshot."""


@dataclass(kw_only=True)
class EventCountingLog(MemoryLog):
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
class FakeReadModels:
    """Takes the place of the read models."""

    known: dict[str, int] = field(default_factory=dict[str, int])

    async def find_call_sequence(self, tenant: str, session: str, call: str) -> int | None:
        del tenant, session
        return self.known.get(call)


def build_time_travel(house: SessionHarness, rows: FakeReadModels | None = None) -> TimeTravel:
    """Give the past as a process reads it that has seen nothing yet."""
    sessions = house.build_command_handler("/test/auditor")
    prompt_inputs = house.build_contexts(sessions).prompt_inputs
    return TimeTravel(sessions, house.blueprints, prompt_inputs, rows or FakeReadModels())


@pytest.fixture(scope="module")
def built() -> SessionHarness:
    """A long session with some excluded turns and withheld replies."""
    return asyncio.run(run_session())


async def run_session() -> SessionHarness:
    house = SessionHarness(log=EventCountingLog())
    await house.open_session()
    worker = house.build_worker()
    for turn in range(1, TURNS + 1):
        house.model.scripts.append([f"Reply {turn}."])
        await house.run_turn(await house.submit_turn(f"Turn {turn}"), worker)
        if turn % 10 == 0:
            await house.sessions.handle(
                TENANT, "s", ExcludeTurn(turn - 3), CommandMetadata("tester")
            )
        if turn % 15 == 0:
            withheld = RedactReply(turn - 1, "asked for", "operator", "(Withheld.)")
            await house.sessions.handle(TENANT, "s", withheld, CommandMetadata("tester"))
    return house


@pytest.fixture
def house(built: SessionHarness) -> Iterator[SessionHarness]:
    """The same for each test, whatever became of its snapshots."""
    snapshots = dict(built.snapshots.snapshots)
    yield built
    built.snapshots.snapshots = snapshots


def map_contexts(house: SessionHarness) -> dict[str, tuple[RecordedEvent, ContextAssembled]]:
    pairs = ((each, each.event) for each in house.list_events())
    return {call.call: (each, call) for each, call in pairs if isinstance(call, ContextAssembled)}


def fold_until(house: SessionHarness, at: int) -> SessionState:
    state = fold(house.list_events()[:at])
    assert state
    return remove_command_keys(state)


def require_counting_log(house: SessionHarness) -> EventCountingLog:
    assert isinstance(house.log, EventCountingLog)
    return house.log


async def test_state_at_a_sequence_equals_the_fold_of_the_events_up_to_it(
    house: SessionHarness,
) -> None:
    last = len(house.list_events())
    reader = build_time_travel(house)
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
        assert await reader.load_state(TENANT, "s", at) == fold_until(house, at)


async def test_loading_any_sequence_reads_at_most_one_snapshot_interval(
    house: SessionHarness,
) -> None:
    last = len(house.list_events())
    for at in (5, INTERVAL_LENGTH + 90, last - 200, last):
        require_counting_log(house).read = 0
        await build_time_travel(house).load_state(TENANT, "s", at)
        assert require_counting_log(house).read <= INTERVAL_LENGTH + MOST_OF_A_BATCH


async def test_first_full_read_creates_missing_interval_snapshots(
    house: SessionHarness,
) -> None:
    last = len(house.list_events())
    house.snapshots.snapshots.clear()
    assert await build_time_travel(house).load_state(TENANT, "s", last - 20) == fold_until(
        house, last - 20
    )
    require_counting_log(house).read = 0
    assert await build_time_travel(house).load_state(TENANT, "s", last - 30) == fold_until(
        house, last - 30
    )
    assert require_counting_log(house).read <= INTERVAL_LENGTH + MOST_OF_A_BATCH


async def test_interval_snapshot_of_other_events_is_not_used(house: SessionHarness) -> None:
    checked = CheckedSnapshotStore(house.log, house.snapshots)
    good = await checked.load_state(TENANT, "s", 1)
    assert good
    other = replace(good, head=replace(good.head, hash=Digest("sha256:" + "0" * 64)), submitted=999)
    await IntervalSnapshots(checked).save_state(other)
    at = INTERVAL_LENGTH + 10
    assert await build_time_travel(house).load_state(TENANT, "s", at) == fold_until(house, at)


async def test_interval_snapshot_contains_no_texts_and_no_command_keys(
    house: SessionHarness,
) -> None:
    checked = CheckedSnapshotStore(house.log, house.snapshots)
    state = await checked.load_state(TENANT, "s", 1)
    assert state
    assert "Reply" not in repr(state)
    assert state.commands == ()


@pytest.mark.parametrize("known", [True, False], ids=["by the rows", "without rows"])
@pytest.mark.parametrize("call", ["1.1", "61.1", "100.1"])
async def test_call_is_read_and_reassembled_from_nearby_events(
    house: SessionHarness, call: str, *, known: bool
) -> None:
    recorded, context = map_contexts(house)[call]
    reader = build_time_travel(house, FakeReadModels({call: recorded.sequence} if known else {}))
    moment = await reader.find_call(TENANT, "s", call)
    assert moment.recorded == recorded
    events = await reader.load_referenced_events(moment)
    blobs = await reader.command_handler.texts.read_blobs(
        TENANT, list_referenced_blobs(context.manifest)
    )
    messages = read_prompt(context.manifest, events, blobs)
    request = ChatRequest(
        context.model, messages, read_tools(context.manifest, blobs), context.parameters
    )
    assert request.digest == context.manifest.digest
    assert reproduce_by_assembly(await reader.load_assembly_inputs(moment)).outcome == "reproduced"


async def test_reading_a_call_loads_only_the_events_of_its_window(house: SessionHarness) -> None:
    recorded, _ = map_contexts(house)["90.1"]
    reader = build_time_travel(house, FakeReadModels({"90.1": recorded.sequence}))
    require_counting_log(house).read = 0
    moment = await reader.find_call(TENANT, "s", "90.1")
    await reader.load_referenced_events(moment)
    await reader.load_assembly_inputs(moment)
    assert require_counting_log(house).read <= INTERVAL_LENGTH + MOST_OF_A_BATCH


async def test_state_is_found_although_a_replica_lags(
    house: SessionHarness,
) -> None:
    require_counting_log(house).lag = 3
    try:
        for at in (2, INTERVAL_LENGTH + 90):
            assert await build_time_travel(house).load_state(TENANT, "s", at) == fold_until(
                house, at
            )
    finally:
        require_counting_log(house).lag = 0


async def test_wrong_read_models_do_not_prevent_finding_a_call(house: SessionHarness) -> None:
    recorded, _ = map_contexts(house)["37.1"]
    for wrong in (recorded.sequence - 1, 1, 99_999):
        moment = await build_time_travel(house, FakeReadModels({"37.1": wrong})).find_call(
            TENANT, "s", "37.1"
        )
        assert moment.recorded == recorded


async def test_missing_call_is_refused(house: SessionHarness) -> None:
    with pytest.raises(Refused) as refused:
        await build_time_travel(house).find_call(TENANT, "s", "37.2")
    assert refused.value.code == "unknown-call"


async def test_turns_out_of_reach_are_reported_as_one_run_with_one_event() -> None:
    house = SessionHarness()
    await house.open_session()
    for _ in range(8):
        house.model.scripts.append(["Long. " * 1_000])
        await house.run_turn(await house.submit_turn("Go on."))
    recorded, call = map_contexts(house)["8.1"]
    (run,) = (part.source for part in call.manifest.parts if part.rule == OUT_OF_REACH)
    assert isinstance(run, HistorySource)
    assert run.last > run.first
    parts = explain_call(build_complete_log(house.list_events()), "8.1").parts
    removed = [exclusion for part in parts for exclusion in part.removed]
    exclusions = [
        (exclusion.first, exclusion.last, exclusion.by)
        for exclusion in removed
        if exclusion.rule == OUT_OF_REACH
    ]
    assert exclusions == [(run.first, run.last, build_event_ref(recorded))]
