"""Quarantine over HTTP and on a terminal: stopped sessions are seen, and released after a fix."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.projections.store.row_fold import Rows, read_rows
from tests.services.gateway.gateway_service import NO_TRACING, RunningGateway
from tests.support.processes.process_host import run_turnlog
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.turn_events import TurnCancelled
from turnlog.projections.store.write import quarantining_fold
from turnlog.projections.store.write.event_rows import build_changes
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.projections.store.write.row_changes import RowChange
from turnlog.services.projector.log_fold import LogFolder, rebuild_rows

BuildChanges = Callable[[RecordedEvent], Iterable[RowChange]]


def fail_on_cancelled_turns(working: BuildChanges) -> BuildChanges:
    """Return the folding of a release that has a bug."""

    def build(recorded: RecordedEvent) -> Iterator[RowChange]:
        if isinstance(recorded.event, TurnCancelled):
            raise KeyError(recorded.event.turn)
        yield from working(recorded)

    return build


@pytest.fixture
def broken_release() -> Iterator[pytest.MonkeyPatch]:
    """A release that cannot fold `turn-cancelled`; `undo` replaces it by one that can."""
    with pytest.MonkeyPatch.context() as patch:
        broken = fail_on_cancelled_turns(build_changes)
        patch.setattr(quarantining_fold, "build_changes", broken)
        yield patch


async def stop_session(running: RunningGateway) -> str:
    """Record a cancelled turn and two later events, and wait until the projector has them."""
    session = await running.open_session()
    await running.submit_turn(session, "Never mind.")
    answer = await running.http.post(f"/v1/sessions/{session}/cancel")
    assert answer.status_code == 200, answer.text
    await running.submit_turn(session, "Another.")
    await running.http.post(f"/v1/sessions/{session}/cancel")
    while True:
        signal = running.projection_signal.get_next_signal()
        found = (await running.fetch_json("/v1/quarantine"))["sessions"]
        if [each["held_back"] for each in found] == [2]:
            return session
        await asyncio.wait_for(signal.wait(), 30)


async def read_active_rows(running: RunningGateway) -> Rows:
    async with running.store.open_reader() as connection:
        active = await read_active_position(connection)
    assert active is not None
    tables = await read_rows(running.store, active.build)
    # Other tests share the server, and their sessions go on.
    return {name: [row for row in rows if running.tenant in row] for name, rows in tables.items()}


async def test_a_stopped_session_is_listed_and_released_after_a_fix(
    idle: RunningGateway, broken_release: pytest.MonkeyPatch
) -> None:
    session = await stop_session(idle)
    events = (await idle.fetch_json(f"/v1/sessions/{session}/events"))["events"]
    (stopped,) = (await idle.fetch_json("/v1/quarantine"))["sessions"]
    cancelled = events[2]
    assert {**stopped, "position": None, "reason": None} == {
        "session": session,
        "position": None,
        "sequence": 3,
        "type": "turnlog.turn-cancelled.v1",
        "time": cancelled["time"],
        "reason": None,
        "held_back": 2,
    }
    assert stopped["reason"].startswith("KeyError in ")
    assert (await idle.fetch_json("/v1/overview"))["tiles"]["stopped_sessions"] == 1
    details = await idle.fetch_json(f"/v1/quarantine/{session}")
    assert [(each["sequence"], each["reason"]) for each in details["events"]] == [
        (3, stopped["reason"]),
        (4, None),
        (5, None),
    ]
    again = await idle.http.post(f"/v1/quarantine/{session}/release")
    assert (again.status_code, again.json()["code"]) == (409, "still-stopped")
    assert again.json()["fix"]
    assert await idle.fetch_json(f"/v1/quarantine/{session}") == details

    broken_release.undo()
    answer = await idle.http.post(f"/v1/quarantine/{session}/release")
    assert (answer.status_code, answer.json()) == (200, {"session": session, "events": 3})
    assert (await idle.fetch_json("/v1/quarantine"))["sessions"] == []
    await idle.fetch_json("/v1/sessions", min_sequence=f"{session}:5")
    released = await read_active_rows(idle)
    folder = LogFolder(
        log=idle.backend.log, store=idle.store, tracing=NO_TRACING, tenant=idle.tenant
    )
    assert await rebuild_rows(folder, lambda _position, _goal: None) is not None
    assert await read_active_rows(idle) == released


async def test_quarantine_routes_return_404_for_sessions_that_are_not_stopped(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session()
    for method, path, code in (
        ("GET", session, "not-stopped"),
        ("POST", f"{session}/release", "not-stopped"),
        ("GET", "nobody", "unknown-session"),
        ("POST", "nobody/release", "unknown-session"),
    ):
        answer = await idle.http.request(method, f"/v1/quarantine/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, code)
        assert (answer.json()["field"], bool(answer.json()["fix"])) == ("session", True)


@pytest.mark.slow("commands run against a service of their own")
async def test_quarantine_commands_list_show_and_release_stopped_sessions(
    idle: RunningGateway, broken_release: pytest.MonkeyPatch
) -> None:
    target = ("--url", idle.address)
    session = await stop_session(idle)
    code, listed, _ = await run_turnlog("quarantine", "list", *target)
    one_line = " ".join(listed.split())
    assert code == 0
    for expected in (session, "3 turn-cancelled", "2 waiting", "KeyError in"):
        assert expected in one_line
    code, table, _ = await run_turnlog("quarantine", "show", session, *target)
    assert (code, table.count("waits")) == (0, 2)
    code, listed, _ = await run_turnlog("quarantine", "list", "-o", "json", *target)
    assert json.loads(listed) == await idle.fetch_json("/v1/quarantine")
    code, _, problem = await run_turnlog("quarantine", "release", session, "--url", idle.address)
    assert (code, "still-stopped" in problem) == (4, True)

    broken_release.undo()
    code, done, _ = await run_turnlog("quarantine", "release", session, "-o", "json", *target)
    assert (code, json.loads(done)) == (0, {"session": session, "events": 3})
    code, empty, _ = await run_turnlog("quarantine", "list", *target)
    assert (code, empty.strip()) == (0, "no session is stopped")
    code, _, problem = await run_turnlog("quarantine", "release", session, *target)
    assert (code, "not-stopped" in problem) == (3, True)
