from __future__ import annotations

from turnlog.events.codec import encode_batch
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.model.session_events import BlueprintRef, SessionClosed, SessionOpened
from turnlog.events.model.turn_events import TurnExcluded
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import BatchAppended, RawEvent
from turnlog.events.testing import make_draft
from turnlog.services.sessions.paged_events import (
    FIRST_PAGE_EVENTS,
    MAX_PAGE_BYTES,
    MAX_PAGE_EVENTS,
    PagedEvent,
    UndecodablePagedEvent,
    read_event_pages,
)

KEY = ("t", "s")


def get_sequence(event: PagedEvent) -> int:
    assert not isinstance(event, UndecodablePagedEvent), event.detail
    return event.sequence


async def record_long_session(log: MemoryLog, events: int) -> RecordedEvent:
    """Record a session of so many events; gives the last."""
    ref = BlueprintRef(name="small", version=1, digest=compute_digest("small"))
    opened = make_draft(SessionOpened(blueprint=ref, profile="p", attributes={}, reach=1), 1)
    drafts = [opened, *(make_draft(TurnExcluded(turn=1), n) for n in range(2, events + 1))]
    head: ChainHead | None = None
    for first in range(0, events, 300):
        outcome = await log.append_batch(encode_batch("t", "s", head, drafts[first : first + 300]))
        assert isinstance(outcome, BatchAppended)
        head = outcome.events[-1].head
    last = await log.read_last_event("t", "s")
    assert last is not None
    return last


async def test_long_session_is_read_in_pages_completely_and_in_order() -> None:
    for events in (
        1,
        MAX_PAGE_EVENTS - 1,
        MAX_PAGE_EVENTS,
        MAX_PAGE_EVENTS + 1,
        2 * MAX_PAGE_EVENTS + 7,
    ):
        log = MemoryLog()
        last = await record_long_session(log, events)
        found = [page async for page in read_event_pages(log, KEY, last)]
        assert max(map(len, found)) <= MAX_PAGE_EVENTS
        assert [get_sequence(event) for page in found for event in page] == [*range(1, events + 1)]


async def test_pages_of_large_events_have_fewer_events() -> None:
    log, long = MemoryLog(), "x" * (MAX_PAGE_BYTES // 5)
    drafts = [make_draft(SessionClosed(reason=long), n) for n in range(1, FIRST_PAGE_EVENTS + 11)]
    assert isinstance(await log.append_batch(encode_batch("t", "s", None, drafts)), BatchAppended)
    last = await log.read_last_event("t", "s")
    assert [len(page) async for page in read_event_pages(log, KEY, last)] == [
        FIRST_PAGE_EVENTS,
        4,
        4,
        2,
    ]


async def test_events_appended_during_a_read_are_not_included() -> None:
    log = MemoryLog()
    earlier = await record_long_session(log, 3)
    more = [make_draft(TurnExcluded(turn=1), n) for n in (4, 5)]
    assert isinstance(
        await log.append_batch(encode_batch("t", "s", earlier.head, more)), BatchAppended
    )
    assert [len(page) async for page in read_event_pages(log, KEY, earlier)] == [3]


async def test_all_events_are_returned_as_stored_around_an_undecodable_one() -> None:
    log = MemoryLog()
    last = await record_long_session(log, MAX_PAGE_EVENTS + 9)
    await log.append_batch(
        encode_batch("t", "another", None, [make_draft(TurnExcluded(turn=1), 1)])
    )
    for broken in (1, MAX_PAGE_EVENTS + 2, MAX_PAGE_EVENTS + 9):
        kept, log.stored[broken - 1] = (
            log.stored[broken - 1],
            RawEvent("session.t.s.turn", broken, b"{"),
        )
        end = None if broken == last.sequence else last
        found = [event async for page in read_event_pages(log, KEY, end) for event in page]
        assert [event.stored for event in found] == [raw.stored for raw in log.stored[:-1] if raw]
        assert [event.number for event in found if isinstance(event, UndecodablePagedEvent)] == [
            broken
        ]
        log.stored[broken - 1] = kept


async def test_altered_event_is_returned_with_its_current_bytes() -> None:
    log = MemoryLog()
    last = await record_long_session(log, 5)
    altered = (await log.read_events_at("t", [3]))[0].stored.replace(b'"turn":1', b'"turn":2')
    log.stored[2] = RawEvent("session.t.s.turn", 3, altered)
    found = [event async for page in read_event_pages(log, KEY, last) for event in page]
    assert [get_sequence(event) for event in found] == [1, 2, 3, 4, 5]
    assert found[2].stored == altered
