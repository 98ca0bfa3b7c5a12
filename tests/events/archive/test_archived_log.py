"""A log of which sessions were moved into the archive reads like the log before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.events.log_sessions import (
    append_one_by_one,
    append_texts,
    read_past,
    require_appended,
    take_items,
)
from turnlog.events.codec import encode_batch
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, StreamHole, Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamClient, add_archive, open_client
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.session_events import SessionClosed
from turnlog.events.store.ports import BatchConflict, EventLog
from turnlog.events.testing import make_drafts
from turnlog.services.archive.closed_sessions import ArchivePlan
from turnlog.services.archive.session_archiver import SessionArchiver, lock_archive
from turnlog.services.platform.nats_server import NatsServer

pytestmark = pytest.mark.asyncio


async def close_session(log: EventLog, last: RecordedEvent) -> RecordedEvent:
    """Append the event that closes a session behind its last event."""
    drafts = make_drafts([SessionClosed(reason="done")], last.sequence + 1)
    batch = encode_batch(last.tenant, last.session, last.head, drafts)
    return require_appended(await log.append_batch(batch))[0]


async def fill_log(log: EventLog) -> dict[str, Sequence[RecordedEvent]]:
    """Append three sessions whose events alternate, and close the second; return their events."""
    events: dict[str, list[RecordedEvent]] = {"a": [], "b": [], "c": []}
    for _ in range(12):
        for session, found in events.items():
            found += await append_one_by_one(log, "t", session, 1, found[-1].head if found else None)
    events["b"].append(await close_session(log, events["b"][-1]))
    other = await append_one_by_one(log, "u", "b", 3)
    return {**events, "u": other}


async def move_closed_sessions(url: str, folder: Path) -> ArchivePlan:
    """Run the command as it would run now, for everything that is closed."""
    with lock_archive(folder):
        async with (
            open_connection(url, name="archive") as connection,
            add_archive(connection, folder) as reading,
        ):
            archiver = SessionArchiver(connection=reading, folder=folder)
            plan = await archiver.plan_move(datetime.now(UTC) + timedelta(hours=1), "t")
            await archiver.move_sessions(plan)
            return plan


async def read_everything(log: EventLog, events: dict[str, Sequence[RecordedEvent]]) -> list[Any]:
    """Return what each way of reading says."""
    found: list[Any] = [await log.get_identity("t"), await log.get_last_stream_sequence("t")]
    for tenant in (None, "t", "u"):
        raws = await read_past(log, tenant)
        found.append(raws)
        found += [await read_past(log, tenant, raw.stream_sequence) for raw in raws[::7]]
    for session in ("a", "b", "c", "d"):
        last = await log.read_last_event("t", session, leader=True)
        found += [last, await log.read_last_event("t", session), await log.list_tenants(session)]
        found += [await log.has_stray_messages("t", session)]
        found += [await log.find_unreadable_end("t", session)]
        if last is None:
            continue
        whole = events[session]
        for first in (0, 1, 5, 11):
            after = whole[first - 1].head if first else None
            found.append(await log.read_range("t", session, after, last))
            found += [await log.read_next_events("t", session, after, count) for count in (1, 50)]
        found += [await log.find_event("t", session, each.sequence, last) for each in whole]
        found.append(await log.read_events_by_leaf("t", session, "turn.submitted", last.head))
        found.append(await log.read_events_at("t", [each.stream_sequence for each in whole]))
        found.append(await take_items(log.watch_session("t", session, 3), len(whole) - 3))
    found.append(await log.read_raw_events_by_leaf("t", "turn.submitted"))
    found.append(await log.find_last_position("t", "session"))
    found += [await log.read_raw_event(place) for place in range(1, 42)]
    live = log.stream_raw_events(None, 0, live=True)
    found.append([raw for bulk in [await anext(live)] for raw in bulk][:1])
    await live.aclose()
    return found


async def test_every_way_of_reading_says_the_same(own_server: NatsServer, tmp_path: Path) -> None:
    async with open_client(own_server.url, StreamOptions()) as before:
        events = await fill_log(before.log)
        expected = await read_everything(before.log, events)
    plan = await move_closed_sessions(own_server.url, tmp_path)
    assert (plan.sessions, plan.events) == ([("t", "b")], 13)
    async with open_client(own_server.url, StreamOptions(), archive=tmp_path) as after:
        assert await read_everything(after.log, events) == expected
        message = await after.connection.send_request(
            "$JS.API.DIRECT.GET.SESSIONS", b'{"last_by_subj":"session.t.b.>"}'
        )
        assert (message.headers or {})["Status"] == "404"
