"""The reading of the whole record: what is noted of a hole, and when it is read again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest_asyncio

from tests.events.log_sessions import append_one_by_one
from turnlog.events.store.memory_log import MemoryLog, MemorySnapshotStore
from turnlog.services.integrity.scrub_notes import RecordHole, ScrubNote, ScrubNotes
from turnlog.services.projector.record_scrub import StreamScrub, is_outdated

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)

NOTE = ScrubNote(created="created", server_run="run", began=BEGAN, lost=0)


@pytest_asyncio.fixture
async def log() -> MemoryLog:
    """Three sessions, whose events lie in turn: 1, 4 and 7 are of `a`."""
    log, heads = MemoryLog(), dict.fromkeys("abc")
    for _ in range(3):
        for session in heads:
            (event,) = await append_one_by_one(
                log=log, tenant="t", session=session, count=1, after=heads[session]
            )
            heads[session] = event.head
    return log


async def scrub(log: MemoryLog, note: ScrubNote) -> ScrubNote:
    notes = ScrubNotes(MemorySnapshotStore())
    reading = StreamScrub("SESSIONS", notes, note)
    await reading.run(lambda after: log.stream_raw_events(None, after, live=False))
    noted = await notes.load_note("SESSIONS", note.created)
    assert noted == reading.note
    return reading.note


async def test_scrub_note_lost_by_the_store_is_kept_in_memory_and_saved_again() -> None:
    store = MemorySnapshotStore()
    notes = ScrubNotes(store)
    await notes.save_note("SESSIONS", NOTE)
    store.snapshots.clear()
    assert await notes.load_note("SESSIONS", NOTE.created) == NOTE
    assert await notes.load_note("SESSIONS", "another stream") is None
    await notes.save_if_lost("SESSIONS", NOTE)
    assert await ScrubNotes(store).load_note("SESSIONS", NOTE.created) == NOTE


async def test_stream_hole_is_noted_with_the_session_that_it_interrupts(
    log: MemoryLog,
) -> None:
    for place in (4, 8, 9):
        log.drop_event(place)
    noted = await scrub(log, NOTE)
    assert (noted.position, noted.is_complete) == (9, True)
    # Nothing comes after the last events of `b` and `c`.
    assert noted.holes == (RecordHole(4, 4, (("t", "a"),)), RecordHole(8, 9))


async def test_scrub_continues_at_the_position_of_the_last_one(log: MemoryLog) -> None:
    log.drop_event(2)
    earlier = ScrubNote(
        created="created",
        server_run="run",
        began=BEGAN,
        lost=0,
        position=3,
        holes=(RecordHole(2, 2),),
    )
    noted = await scrub(log, earlier)
    assert noted.holes == (RecordHole(2, 2, (("t", "b"),)),)


async def test_stream_hole_that_no_longer_exists_is_dropped(
    log: MemoryLog,
) -> None:
    again = ScrubNote(
        created="created", server_run="later run", began=BEGAN, lost=0, holes=(RecordHole(5, 6),)
    )
    assert (await scrub(log, again)).holes == ()


def test_scrub_starts_over_after_a_server_restart_a_loss_or_a_day() -> None:
    read = ScrubNote(
        created="created", server_run="run", began=BEGAN, lost=0, position=9, is_complete=True
    )

    def compare(run: str, lost: int, hours: float) -> bool:
        return is_outdated(
            read,
            ScrubNote(
                created="created", server_run=run, began=BEGAN + timedelta(hours=hours), lost=lost
            ),
        )

    assert not compare("run", 0, 23)
    assert compare("run", 0, 24)
    assert compare("run", 0, -1)
    assert compare("run", 1, 1)
    assert compare("another run", 0, 1)
