"""An undecodable event stops its own session, is kept with its reason, and is replayed later."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from tests.projections.store.row_fold import (
    begin_hidden_build,
    ensure_live_position,
    fold_log,
    read_rows,
    read_turn_rows,
)
from tests.projections.store.row_fold import fold_events as fold_all
from tests.projections.store.session_histories import (
    StoredSession,
    append_raw,
    build_assembled,
    build_completed,
    build_opened,
    build_part,
    build_started,
    build_submitted,
    read_all_events,
)
from turnlog.events.content import compute_digest
from turnlog.events.registry import UnknownEvent
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import RawEvent
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.read_model_tables import QUARANTINE
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write import projection_positions, stopped_sessions
from turnlog.projections.store.write.batch_apply import ReplayResult, replay_session
from turnlog.projections.store.write.quarantining_fold import (
    SessionEnds,
    decode_raw_event,
    fold_events,
)
from turnlog.projections.store.write.row_changes import ColumnValues, PutRow, write_changes
from turnlog.projections.store.write.stopped_sessions import SessionStrays, StoppedSession

BROKEN_EVENT = b'{"tenant": "t", "subject": "bad", "sequence": 3, "type": "of nothing"}'
"""It states whose event it is, and cannot be decoded."""


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


async def list_halted(store: ReadModelStore) -> list[StoppedSession]:
    at = await ensure_live_position(store)
    async with store.open_reader() as connection:
        return list(await stopped_sessions.list_stopped_sessions(connection, at.build))


async def list_reply_flags(store: ReadModelStore, session: str) -> list[bool]:
    async with store.open_reader() as connection:
        found = await read_turn_rows(connection, "t", session)
    return [turn.status == "completed" for turn in found]


@pytest.mark.promise("P13")
async def test_undecodable_event_stops_only_its_own_session(
    store: ReadModelStore, log: MemoryLog
) -> None:
    bad, good = StoredSession(log=log, session="bad"), StoredSession(log=log, session="good")
    await bad.append_events(build_opened(), build_submitted(1, "one"))
    await good.append_events(build_opened(), build_submitted(1, "one"))
    place = append_raw(log, BROKEN_EVENT, "bad")
    await bad.append_events(build_completed(1, "held back"))
    await good.append_events(build_completed(1, "folded"))
    (poison,) = await fold_log(store, log)
    assert (poison.session, poison.position) == ("bad", place)
    assert await list_reply_flags(store, "good") == [True]
    assert await list_reply_flags(store, "bad") == [False]
    (stopped,) = await list_halted(store)
    assert (stopped.session, stopped.position, stopped.held_back) == ("bad", place, 1)
    assert "Field required" in stopped.reason


async def test_stopped_session_remains_stopped_in_later_batches(
    store: ReadModelStore, log: MemoryLog
) -> None:
    story = StoredSession(log=log)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    append_raw(log, BROKEN_EVENT.replace(b"bad", b"s"))
    await fold_log(store, log)
    for turn in (1, 2, 3):
        await story.append_events(build_completed(turn, "held back"))
        assert await fold_log(store, log) == []
    (stopped,) = await list_halted(store)
    assert stopped.held_back == 3
    assert await list_reply_flags(store, "s") == [False]


async def test_quarantine_stores_the_exact_bytes(store: ReadModelStore, log: MemoryLog) -> None:
    await StoredSession(log=log).append_events(build_opened())
    stored = b"\n\t " + BROKEN_EVENT.replace(b"bad", b"s")
    append_raw(log, stored)
    await fold_log(store, log)
    (row,) = (await read_rows(store, (await ensure_live_position(store)).build))["quarantine"]
    assert row[-1] == stored


async def list_strays(store: ReadModelStore, tenant: str) -> list[SessionStrays]:
    at = await ensure_live_position(store)
    async with store.open_reader() as connection:
        return list(await stopped_sessions.list_session_strays(connection, at.build, tenant))


async def test_event_stored_under_the_subject_of_another_session_is_a_stray_message(
    store: ReadModelStore, log: MemoryLog
) -> None:
    victim, forger = (
        StoredSession(log=log, session="victim"),
        StoredSession(log=log, session="forger", tenant="u"),
    )
    await victim.append_events(build_opened(), build_submitted(1, "mine"))
    await forger.append_events(build_opened())
    (forged,) = await forger.append_events(build_submitted(1, "forged"))
    log.stored.pop()
    place = append_raw(log, forged.stored, "victim", "t")
    await victim.append_events(build_completed(1, "folded"))
    assert await fold_log(store, log) == []
    assert await list_reply_flags(store, "victim") == [True]
    (strays,) = await list_strays(store, "t")
    assert (strays.session, strays.position, strays.count) == ("victim", place, 1)
    assert strays.reason == "it is an event of another session"


async def test_stray_messages_are_counted_once_however_often_a_batch_is_applied(
    store: ReadModelStore, log: MemoryLog
) -> None:
    story = StoredSession(log=log)
    await story.append_events(build_opened())
    first, _ = (append_raw(log, stored) for stored in (b"not an event", bytes(range(256))))
    await story.append_events(build_submitted(1, "one"))
    await fold_log(store, log)
    append_raw(log, b"[]")
    await fold_log(store, log)
    (strays,) = await list_strays(store, "t")
    assert (strays.position, strays.count) == (first, 3)
    assert await list_halted(store) == []


@pytest.mark.parametrize("subject", ["session.t", "other", "session.a.b"])
async def test_message_on_a_subject_of_no_session_stops_nothing(
    store: ReadModelStore, log: MemoryLog, subject: str
) -> None:
    await StoredSession(log=log).append_events(build_opened(), build_submitted(1, "one"))
    log.stored.append(RawEvent(subject, len(log.stored) + 1, b"stray"))
    assert await fold_log(store, log) == []
    (strays,) = await list_strays(store, "")
    assert strays.session == subject
    assert await list_reply_flags(store, "s") == [False]


async def test_gap_in_a_session_stops_it(store: ReadModelStore, log: MemoryLog) -> None:
    story = StoredSession(log=log)
    await story.append_events(
        build_opened(),
        build_submitted(1, "one"),
        build_completed(1, "first"),
        build_submitted(2, "two"),
    )
    raws = await read_all_events(log)
    _, (poison,) = await fold_all(store, await ensure_live_position(store), [*raws[:2], *raws[3:]])
    assert "sequence 4 where 3 is due" in poison.reason
    assert not poison.is_chained


async def test_altered_event_breaks_the_chain_at_the_next_event(
    store: ReadModelStore, log: MemoryLog
) -> None:
    story = StoredSession(log=log)
    await story.append_events(
        build_opened(), build_submitted(1, "one"), build_completed(1, "first")
    )
    raws = await read_all_events(log)
    altered = RawEvent(raws[1].subject, 2, raws[1].stored.replace(b"one", b"two"))
    _, (poison,) = await fold_all(
        store, await ensure_live_position(store), [raws[0], altered, raws[2]]
    )
    assert poison.position == 3
    assert "not chained" in poison.reason


async def test_session_opened_by_a_later_release_is_quarantined(
    store: ReadModelStore, log: MemoryLog
) -> None:
    (first,) = await StoredSession(log=log).append_events(build_opened())
    log.stored.pop()
    append_raw(log, first.stored.replace(b"session-opened.v1", b"session-opened.v9"))
    (poison,) = await fold_log(store, log)
    assert "turnlog.session-opened.v9" in poison.reason


async def test_number_that_the_database_rejects_stops_one_session(
    store: ReadModelStore, log: MemoryLog
) -> None:
    bad, good = StoredSession(log=log, session="bad"), StoredSession(log=log, session="good")
    await bad.append_events(build_opened())
    await good.append_events(build_opened(), build_submitted(1, "one"))
    await bad.append_events(
        build_assembled(1, "1.1", build_part("input", tokens=2**70)),
        build_submitted(1, "held back"),
    )
    await good.append_events(build_completed(1, "folded"))
    (poison,) = await fold_log(store, log)
    assert poison.session == "bad"
    assert "refuses" in poison.reason
    assert await list_reply_flags(store, "good") == [True]
    assert [stopped.held_back for stopped in await list_halted(store)] == [1]


async def test_key_too_long_for_a_postgres_index_stops_one_session(
    postgres_url: str, log: MemoryLog
) -> None:
    store = open_store(postgres_url)
    await prepare_schema(store)
    long = "".join(chr(0x4E00 + number) for number in range(9000))
    await StoredSession(log=log, session="bad").append_events(
        build_opened(), build_assembled(1, "1.1", build_part(long, tokens=1))
    )
    await StoredSession(log=log, session="good").append_events(build_opened())
    (poison,) = await fold_log(store, log)
    assert poison.session == "bad"
    await store.close()


async def test_reason_of_a_folding_bug_names_its_location_and_no_event_text(
    log: MemoryLog,
) -> None:
    story = StoredSession(log=log)
    _, second = await story.append_events(build_opened(), build_submitted(1, "a secret"))
    strange = replace(second, event=cast("UnknownEvent", "a secret"))
    first, behind = map(decode_raw_event, await read_all_events(log))
    events = (first, replace(behind, event=strange))
    (poison,) = fold_events(events, SessionEnds({}, set()), {}).poisons
    assert poison.position == 2
    assert poison.reason.startswith("AssertionError in ")
    assert "secret" not in poison.reason


async def insert_quarantined(store: ReadModelStore, raws: list[RawEvent]) -> None:
    """Leave events in quarantine as an earlier release did, which had a bug."""
    at = await ensure_live_position(store)
    async with store.open_writer() as connection:
        for number, raw in enumerate(raws):
            reason = None if number else "KeyError in changes, line 1"
            values: ColumnValues = {"subject": raw.subject, "reason": reason, "stored": raw.stored}
            row = PutRow(QUARANTINE, ("t", "s", raw.stream_sequence), values)
            await connection.run_sync(write_changes, at.build, [row])
        await connection.run_sync(
            projection_positions.move_position,
            at,
            raws[-1].stream_sequence,
            compute_digest(raws[-1].stored),
        )


async def test_replay_after_a_fix_yields_the_same_rows_as_a_rebuild(
    store: ReadModelStore, log: MemoryLog
) -> None:
    story = StoredSession(log=log)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await fold_log(store, log)
    await story.append_events(
        build_started(1, 1), build_assembled(1, "1.1", build_part("input", tokens=1))
    )
    await story.append_events(build_completed(1, "first"))
    await insert_quarantined(store, (await read_all_events(log))[2:])
    await story.append_events(build_submitted(2, "held back by this release too"))
    assert await fold_log(store, log) == []
    assert await list_reply_flags(store, "s") == [False]
    async with store.open_writer() as connection:
        assert await replay_session(connection, "t", "s") == ReplayResult(4, None)
    assert await list_halted(store) == []
    rebuilt, _ = await fold_all(store, await begin_hidden_build(store), await read_all_events(log))
    assert await read_rows(store, (await ensure_live_position(store)).build) == await read_rows(
        store, rebuilt.build
    )


async def test_replayed_session_continues_to_be_folded(
    store: ReadModelStore, log: MemoryLog
) -> None:
    story = StoredSession(log=log)
    await story.append_events(build_opened())
    await fold_log(store, log)
    await story.append_events(build_submitted(1, "one"))
    await insert_quarantined(store, (await read_all_events(log))[1:])
    async with store.open_writer() as connection:
        await replay_session(connection, "t", "s")
    await story.append_events(build_completed(1, "first"))
    assert await fold_log(store, log) == []
    assert await list_reply_flags(store, "s") == [True]


async def test_replay_of_an_event_that_is_still_poison_keeps_every_event(
    store: ReadModelStore, log: MemoryLog
) -> None:
    story = StoredSession(log=log)
    await story.append_events(build_opened())
    append_raw(log, BROKEN_EVENT.replace(b"bad", b"s"))
    await story.append_events(build_submitted(1, "one"))
    await fold_log(store, log)
    before = await list_halted(store)
    async with store.open_writer() as connection:
        replayed = await replay_session(connection, "t", "s")
    assert replayed.poison is not None
    assert await list_halted(store) == before
    assert before[0].held_back == 1


async def test_replay_of_a_session_that_is_not_stopped_does_nothing(
    store: ReadModelStore, log: MemoryLog
) -> None:
    async with store.open_writer() as connection:
        assert await replay_session(connection, "t", "s") == ReplayResult(0, None)
    await StoredSession(log=log).append_events(build_opened())
    await fold_log(store, log)
    async with store.open_writer() as connection:
        assert await replay_session(connection, "t", "s") == ReplayResult(0, None)
