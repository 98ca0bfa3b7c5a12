"""The work of a turn, in a gateway and a worker, is the same in an old session as in a young one.

Counted are the calls of functions, C's included, which a busy machine does not change.
"""

from __future__ import annotations

import dataclasses
import sys

import pytest

from tests.support.sessions.session_harness import TENANT, SessionHarness
from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.model.turn_events import TurnFailed
from turnlog.events.registry import KnownEvent, UnknownEvent
from turnlog.events.store.ports import BatchAppended
from turnlog.services.worker.attempts.attempt_heartbeats import AttemptHeartbeat
from turnlog.services.worker.turn_runner import TurnRunner

TEXT = "What is it that you see from up there? " * 10

YOUNG, OLD = 60, 300
"""Turns of a session; a window has five of them."""

SAMPLES = 3
"""Turns that are counted; the least counts, since what runs beside a turn only adds to it."""


async def run_turn(house: SessionHarness, worker: TurnRunner) -> None:
    house.model.scripts.append([TEXT])
    await house.run_turn(await house.submit_turn(TEXT), worker)


def build_turn(house: SessionHarness, pattern: list[KnownEvent], turn: int) -> list[EventDraft]:
    """Copy an answered turn under another number; every tenth fails."""
    events = pattern
    if turn % 10 == 0:
        failed = TurnFailed(turn=turn, code="bad", detail="No.", retryable=False)
        events = [pattern[0], failed]
    copies = [event.model_copy(update={"turn": turn}) for event in events]
    return [
        EventDraft(
            event=copy,
            id=house.create_id(),
            at=house.clock(),
            source="/test/worker",
            actor="tester",
        )
        for copy in copies
    ]


async def add_turns(house: SessionHarness, upto: int) -> None:
    """Add turns to the log, many at once."""
    events = [each.event for each in house.list_events()]
    first = [event for event in events if getattr(event, "turn", None) == 1]
    pattern = [event for event in first if not isinstance(event, UnknownEvent)]
    state = await house.load_state()
    turns = range(state.submitted + 1, upto + 1)
    drafts = [draft for turn in turns for draft in build_turn(house, pattern, turn)]
    batch = encode_batch(TENANT, "s", state.head, drafts)
    assert isinstance(await house.log.append_batch(batch), BatchAppended)


async def count_calls(house: SessionHarness, worker: TurnRunner) -> int:
    """Count the calls of functions in one turn."""
    count = 0

    def add_call(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(add_call)
    try:
        await run_turn(house, worker)
    finally:
        sys.setprofile(before)
    return count


async def count_turn_work(house: SessionHarness, worker: TurnRunner) -> int:
    for _ in range(6):
        await run_turn(house, worker)  # Reads what was added, and fills the window.
    return min([await count_calls(house, worker) for _ in range(SAMPLES)])


@pytest.mark.tampers  # The turns that are added have the manifest of another.
async def test_turn_of_a_long_session_takes_no_more_work_than_one_of_a_short_session() -> None:
    house = SessionHarness()
    await house.open_session()
    worker = house.build_worker()
    # No heartbeat falls into a turn, however slow the machine is.
    heartbeat = AttemptHeartbeat(worker.sessions, house.tokens, 600)
    worker = dataclasses.replace(worker, heartbeat=heartbeat)
    await run_turn(house, worker)
    await add_turns(house, YOUNG)
    young = await count_turn_work(house, worker)
    await add_turns(house, OLD)
    old = await count_turn_work(house, worker)
    # Each failed turn leaves a run of its own in the state, and none of them is work.
    assert len((await house.load_state()).earlier) > OLD / 10
    assert old < young * 1.1
