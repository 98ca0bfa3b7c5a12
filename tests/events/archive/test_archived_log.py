"""A log of which sessions were moved into the archive reads like the log before."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from tests.events.log_sessions import (
    append_one_by_one,
    append_texts,
    build_batch,
    read_past,
    require_appended,
    take_items,
)
from turnlog.events.archive.archive_index import NextIndex
from turnlog.events.archive.session_files import find_session_file
from turnlog.events.codec import encode_batch
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.events.jetstream.archive import stream_copy, stream_remake
from turnlog.events.jetstream.jetstream_client import (
    add_archive,
    build_client,
    open_client,
)
from turnlog.events.jetstream.nats_connection import answer_requests, open_connection
from turnlog.events.jetstream.stream_setup import StreamOptions, provision_streams
from turnlog.events.model.session_events import SessionClosed
from turnlog.events.store.ports import BatchConflict, EventLog, LogUnreachable, RawEvent
from turnlog.events.subjects import POSITIONS_SUBJECT
from turnlog.events.testing import make_drafts
from turnlog.services.archive import session_archiver
from turnlog.services.archive.closed_sessions import ArchivePlan
from turnlog.services.archive.session_archiver import SessionArchiver, lock_archive
from turnlog.services.platform.nats_server import NatsServer

pytestmark = pytest.mark.asyncio

Given = ParamSpec("Given")

Result = TypeVar("Result")


async def close_session(log: EventLog, last: RecordedEvent) -> RecordedEvent:
    """Append the event that closes a session behind its last event."""
    drafts = make_drafts([SessionClosed(reason="done")], last.sequence + 1)
    batch = encode_batch(last.tenant, last.session, last.head, drafts)
    return require_appended(await log.append_batch(batch))[0]


async def fill_log(log: EventLog) -> dict[str, Sequence[RecordedEvent]]:
    """Append three sessions whose events alternate, and close the second; return their events."""
    events: dict[str, list[RecordedEvent]] = {"a": [], "b": [], "c": []}
    for _ in range(12):
        for session in ("a", "b", "c"):
            head = events[session][-1].head if events[session] else None
            events[session] += await append_one_by_one(log, "t", session, 1, head)
    events["b"].append(await close_session(log, events["b"][-1]))
    other = await append_one_by_one(log, "u", "b", 3)
    return {**events, "u": other}


async def move_closed_sessions(url: str, folder: Path) -> ArchivePlan:
    """Run the command as it would run now, for everything that is closed."""
    with lock_archive(folder):
        async with open_connection(url, name="archive") as connection:
            await SessionArchiver(connection=connection, folder=folder).finish_move()
            async with add_archive(connection, folder) as reading:
                archiver = SessionArchiver(connection=reading, folder=folder)
                plan = await archiver.plan_move(datetime.now(UTC) + timedelta(hours=1), "t")
                if plan.sessions:
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


class Died(BaseException):
    """A run was killed; nothing of it goes on, not even its clean-up."""


@dataclass
class DyingRun:
    """Kills a run at one of its requests to the server or steps in files."""

    step: int
    taken: int = 0

    def let_steps_die(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let each step of a run count, and die from the chosen one on."""
        for module, name in (
            (stream_remake, "request_json"),
            (stream_copy, "request_json"),
            (stream_copy, "_send_chunk"),
            (session_archiver, "write_private_file"),
            (session_archiver, "sync_folder"),
        ):
            monkeypatch.setattr(module, name, self._wrap(getattr(module, name)))
        for name in ("finish", "replace_index"):
            monkeypatch.setattr(NextIndex, name, self._wrap(getattr(NextIndex, name)))

    def _wrap(self, call: Callable[Given, Result]) -> Callable[Given, Result]:
        def take_step(*arguments: Given.args, **named: Given.kwargs) -> Result:
            self.taken += 1
            if self.taken >= self.step:
                raise Died
            return call(*arguments, **named)

        return take_step


async def test_run_that_was_killed_at_any_step_is_finished(
    own_server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_client(own_server.url, StreamOptions()) as opened:
        kept = await append_one_by_one(opened.log, "t", "kept", 2)
    step = 0
    for step in itertools.count(1):
        async with open_client(own_server.url, StreamOptions(), archive=tmp_path) as opened:
            kept += await append_one_by_one(opened.log, "t", "kept", 1, kept[-1].head)
            moved = await append_one_by_one(opened.log, "t", f"moved-{step}", 2)
            await close_session(opened.log, moved[-1])
            expected = await read_past(opened.log, None)
        with monkeypatch.context() as patched:
            run = DyingRun(step)
            run.let_steps_die(patched)
            with suppress(Died):
                await move_closed_sessions(own_server.url, tmp_path)
        if run.taken >= step:
            for folder in (tmp_path, None):
                assert await start_role(own_server.url, folder) in {None, tuple(expected)}
            await move_closed_sessions(own_server.url, tmp_path)
        async with open_client(own_server.url, StreamOptions(), archive=tmp_path) as opened:
            assert await read_past(opened.log, None) == expected
            message = await opened.connection.send_request(
                "$JS.API.DIRECT.GET.SESSIONS",
                json.dumps({"last_by_subj": f"session.t.moved-{step}.>"}).encode(),
            )
            assert (message.headers or {})["Status"] == "404"
        if run.taken < step:
            break
    assert step > 15, "the walk died at too few steps to be one"


async def start_role(url: str, folder: Path | None) -> tuple[RawEvent, ...] | None:
    """Start as a role would, with little patience; return what it reads, or None if refused."""
    try:
        async with (
            open_connection(url, name="start") as connection,
            add_archive(connection, folder) as reading,
        ):
            await provision_streams(reading, StreamOptions(), patience=0)
            return tuple(await read_past(build_client(reading).log, None))
    except (Corrupt, Unavailable) as refusal:
        if re.search("turnlog archive finish|TURNLOG_ARCHIVE", str(refusal)):
            return None
        raise


async def test_stale_writer_appends_nothing_behind_archived_events(
    own_server: NatsServer, tmp_path: Path
) -> None:
    async with open_client(own_server.url, StreamOptions()) as before:
        events = (await fill_log(before.log))["b"]
    await move_closed_sessions(own_server.url, tmp_path)
    async with open_client(own_server.url, StreamOptions(), archive=tmp_path) as after:
        for head in (None, events[4].head):
            outcome = await after.log.append_batch(build_batch("t", "b", head, "late"))
            assert outcome == BatchConflict(len(events))
        (last,) = await append_texts(after.log, "t", "b", "behind", after=events[-1].head)
        assert await after.log.read_range("t", "b", None, last) == [*events, last]


@pytest.mark.parametrize("damage", ["altered", "flipped", "shortened", "missing"])
async def test_damaged_file_is_named_and_other_sessions_are_read(
    own_server: NatsServer, tmp_path: Path, damage: str
) -> None:
    async with open_client(own_server.url, StreamOptions()) as before:
        events = await fill_log(before.log)
        await close_session(before.log, events["c"][-1])
    await move_closed_sessions(own_server.url, tmp_path)
    file = find_session_file(tmp_path, "t", "b")
    stored = file.read_bytes()
    match damage:
        case "altered":
            file.write_bytes(gzip.compress(gzip.decompress(stored).replace(b"hello", b"hallo", 1)))
        case "flipped":
            file.write_bytes(stored[:100] + bytes([stored[100] ^ 1]) + stored[101:])
        case "shortened":
            file.write_bytes(stored[:-1])
        case _:
            file.unlink()
    async with open_client(own_server.url, StreamOptions(), archive=tmp_path) as after:
        places = [each.stream_sequence for each in events["b"]]
        with pytest.raises(Corrupt, match=re.escape(str(file))):
            await after.log.read_events_at("t", places)
        with pytest.raises(Corrupt, match=re.escape(str(file))):
            await read_past(after.log, "t")
        assert await after.log.read_range("t", "c", None, events["c"][-1]) == events["c"]


async def test_role_without_all_of_the_archive_is_refused(
    own_server: NatsServer, tmp_path: Path
) -> None:
    async with open_client(own_server.url, StreamOptions()) as before:
        await fill_log(before.log)
    await move_closed_sessions(own_server.url, tmp_path)
    with pytest.raises(Corrupt, match=r"13 of its messages .* 0 are found .* TURNLOG_ARCHIVE"):
        await enter(open_client(own_server.url, StreamOptions()))
    (tmp_path / "other").mkdir()
    NextIndex(tmp_path / "other").finish()
    NextIndex.replace_index(tmp_path / "other")
    with pytest.raises(Corrupt, match="13 of its messages"):
        await enter(open_client(own_server.url, StreamOptions(), archive=tmp_path / "other"))
    (tmp_path / "index.db").write_bytes(b"no database")
    with pytest.raises(Corrupt, match=r"index\.db: file is not a database: restore the archive"):
        await enter(open_client(own_server.url, StreamOptions(), archive=tmp_path))


async def enter(opening: AbstractAsyncContextManager[object]) -> None:
    async with opening:
        pass


async def test_only_sessions_that_are_closed_for_long_enough_and_whole_are_moved(
    own_server: NatsServer, tmp_path: Path
) -> None:
    async with open_client(own_server.url, StreamOptions()) as opened:
        for session in ("closed", "open", "stray"):
            events = await append_one_by_one(opened.log, "t", session, 2)
            if session != "open":
                await close_session(opened.log, events[-1])
        await close_session(opened.log, (await append_one_by_one(opened.log, "u", "closed", 1))[-1])
        for junk in (b"no event", b'{"tenant":"t","subject":"stray","sequence":9}'):
            await opened.connection.send_request("session.t.stray.turn.submitted", junk)
        archiver = SessionArchiver(connection=opened.connection, folder=tmp_path)
        young = await archiver.plan_move(datetime.now(UTC) - timedelta(days=9_000), "t")
        plan = await archiver.plan_move(datetime.now(UTC), "t")
    assert young.sessions == []
    assert (plan.sessions, plan.with_strays) == ([("t", "closed")], [("t", "stray")])


async def test_nothing_is_moved_while_a_role_is_connected(
    own_server: NatsServer, tmp_path: Path
) -> None:
    async with open_client(own_server.url, StreamOptions()) as opened:
        await fill_log(opened.log)

        async def answer() -> bytes:
            return b"{}"

        async with answer_requests(opened.connection, POSITIONS_SUBJECT, answer):
            with pytest.raises(Refused, match="a gateway, a worker or a projector is connected"):
                await move_closed_sessions(own_server.url, tmp_path)
        assert (await opened.log.read_last_event("t", "b", leader=True)) is not None
        await append_one_by_one(opened.log, "t", "new", 1)
    with lock_archive(tmp_path), pytest.raises(Refused, match="another command moves sessions"):
        await move_closed_sessions(own_server.url, tmp_path)


class InterruptedArchiver(SessionArchiver):
    """Lets something happen between the copy of the stream and its deletion."""

    async def _write_files(self, plan: ArchivePlan) -> int:
        log = replace(build_client(self.connection).log, patience=0)
        outcome = await log.append_batch(build_batch("t", "late", None, "lost?"))
        assert isinstance(outcome, LogUnreachable)
        assert not outcome.ambiguous
        return await super()._write_files(plan)


async def test_nothing_is_appended_between_the_copy_and_the_new_stream(
    own_server: NatsServer, tmp_path: Path
) -> None:
    async with open_client(own_server.url, StreamOptions()) as opened:
        events = await fill_log(opened.log)
        archiver = InterruptedArchiver(connection=opened.connection, folder=tmp_path)
        await archiver.move_sessions(await archiver.plan_move(datetime.now(UTC), "t"))
    async with open_client(own_server.url, StreamOptions(), archive=tmp_path) as after:
        assert await after.log.read_last_event("t", "late", leader=True) is None
        (late,) = await append_texts(after.log, "t", "late", "now")
        assert late.stream_sequence == events["u"][-1].stream_sequence + 1


async def test_durable_consumer_goes_on_where_it_was(
    own_server: NatsServer, tmp_path: Path
) -> None:
    async with open_client(own_server.url, StreamOptions()) as opened:
        events = await fill_log(opened.log)
        pulled = await opened.connection.nc.jetstream().pull_subscribe(
            "session.t.>", durable="mine", stream="SESSIONS"
        )
        for message in await pulled.fetch(20):
            await message.ack_sync()
    await move_closed_sessions(own_server.url, tmp_path)
    async with open_client(own_server.url, StreamOptions(), archive=tmp_path) as after:
        pulled = await after.connection.nc.jetstream().pull_subscribe_bind("mine", "SESSIONS")
        rest = [message.metadata.sequence.stream for message in await pulled.fetch(50, timeout=5)]
    kept = {each.stream_sequence for each in (*events["a"], *events["c"])}
    assert rest == sorted(place for place in kept if place > 20)
