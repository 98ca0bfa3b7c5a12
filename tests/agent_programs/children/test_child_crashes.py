"""A worker dies before or after every append of a turn with children; another takes over."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any, Literal

import pytest
from pydantic import JsonValue

from tests.agent_programs.children.child_harness import TeamHarness, open_team
from tests.agent_programs.turns.test_turn_crashes import WHEN, CrashingLog, build_crashing_worker
from tests.support.sessions.session_harness import TENANT, TESTER
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import TurnCancelled, TurnCompleted, TurnSubmitted
from turnlog.projections.session.commands import CancelTurn
from turnlog.services.worker.turn_runner import TurnRunner

APPENDS = 18
"""The number of appends of the turn and of its children's turns."""


async def run_crashing_team(
    team: TeamHarness,
    at: int,
    when: Literal["before", "after"],
    inputs: Mapping[str, JsonValue] | None = None,
) -> bool:
    """Let a worker of parent and children die, and another take over all of its messages."""
    await team.house.submit_turn("Is it so?", inputs=inputs)
    mortal = CrashingLog(log=team.house.log, fatal=at, when=when)
    worker = build_crashing_worker(team.house, mortal, "w1")
    working = asyncio.create_task(team.queue.deliver_all(worker))
    dying = asyncio.create_task(mortal.dead.wait())
    await asyncio.wait({working, dying}, return_when=asyncio.FIRST_COMPLETED)
    died = mortal.dead.is_set()
    await cancel_tasks(working, dying)
    if died:
        team.house.tokens.clear_all()
        await team.queue.deliver_all(team.house.build_worker("w2"))
    else:
        working.result()
    return died


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_crash_at_any_append_requests_each_child_once_and_completes_the_turn(
    at: int, when: Literal["before", "after"]
) -> None:
    team = await open_team()
    assert await run_crashing_team(team, at, when)
    assert len(team.list_events("s", TurnCompleted)) == 1
    assert len(team.list_events("s", ChildRequested)) == 2
    assert [each.outcome for each in team.list_events("s", ChildSettled)] == ["answered"] * 2
    assert [each.outcome for each in team.list_events("s", ToolReturned)] == ["answered"] * 2
    children = team.list_children()
    assert len(children) == 2
    for child in children:
        assert len(team.list_events(child, TurnSubmitted)) == 1
        assert len(team.list_events(child, TurnCompleted)) == 1
    for session in ("s", *children):
        answered = Counter(each.call for each in team.list_events(session, CallCompleted))
        prompted = Counter(each.call for each in team.list_events(session, ContextAssembled))
        assert answered == prompted
        assert set(answered.values()) == {1}


async def test_crash_points_cover_every_append() -> None:
    assert not await run_crashing_team(await open_team(), APPENDS + 1, "before")


CANCEL_APPENDS = 8
"""The number of appends until both children are asked, and of those that withdraw them."""


@pytest.mark.parametrize("at", range(1, CANCEL_APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_cancelled_turn_leaves_no_child_turn_running(
    at: int, when: Literal["before", "after"]
) -> None:
    """The worker dies while it asks, or while it withdraws; the turn is cancelled in between."""
    team = await open_team()
    submitted = await team.house.submit_turn("Is it so?")
    mortal = CrashingLog(log=team.house.log, fatal=at, when=when)
    worker = build_crashing_worker(team.house, mortal, "w1")
    await run_until_death(mortal, team.queue.deliver(worker, submitted))
    await team.house.sessions.handle(TENANT, "s", CancelTurn(1), TESTER)
    if not mortal.dead.is_set():
        await run_until_death(mortal, deliver_withdrawals(team, worker))
    team.house.tokens.clear_all()
    after = team.house.build_worker("w2")
    await deliver_withdrawals(team, after)
    await team.queue.deliver_all(after)
    assert len(team.list_events("s", TurnCancelled)) == 1
    requested = team.list_events("s", ChildRequested)
    assert len(team.list_events("s", ChildSettled)) == len(requested)
    assert all(each.outcome == "withdrawn" for each in team.list_events("s", ChildSettled))
    for child in {each.session for each in requested}:
        assert len(team.list_events(child, TurnSubmitted)) == 1
        assert len(team.list_events(child, TurnCancelled)) == 1
        assert team.list_events(child, ContextAssembled) == []


async def run_until_death(mortal: CrashingLog, work: Coroutine[Any, Any, object]) -> None:
    working = asyncio.create_task(work)
    dying = asyncio.create_task(mortal.dead.wait())
    await asyncio.wait({working, dying}, return_when=asyncio.FIRST_COMPLETED)
    if not mortal.dead.is_set():
        working.result()
    await cancel_tasks(working, dying)


async def deliver_withdrawals(team: TeamHarness, worker: TurnRunner) -> None:
    """Deliver the messages that withdraw children before those that would run them."""
    for pending in tuple(team.queue.list_pending()):
        if isinstance(pending.event, ChildSettled):
            await team.queue.deliver(worker, pending)
