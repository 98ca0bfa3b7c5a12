from __future__ import annotations

from turnlog.events.codec import write
from turnlog.events.content import digest_of
from turnlog.events.envelope import Head, Recorded
from turnlog.events.log.memory import MemoryLog
from turnlog.events.log.outcomes import Appended
from turnlog.events.log.ports import Raw
from turnlog.events.session import BlueprintRef, SessionClosed, SessionOpened
from turnlog.events.testing import draft
from turnlog.events.turn import TurnExcluded
from turnlog.services.runtime.pages import BYTES, FIRST, PAGE, Told, Unread, pages

KEY = ("t", "s")


def sequence(told: Told) -> int:
    assert not isinstance(told, Unread), told.detail
    return told.sequence


async def lasting(log: MemoryLog, events: int) -> Recorded:
    """Record a session of `events` events and return the last."""
    ref = BlueprintRef(name="small", version=1, digest=digest_of("small"))
    opened = draft(SessionOpened(blueprint=ref, profile="p", attributes={}, reach=1), 1)
    drafts = [opened, *(draft(TurnExcluded(turn=1), n) for n in range(2, events + 1))]
    head: Head | None = None
    for first in range(0, events, 300):
        outcome = await log.append(write("t", "s", head, drafts[first : first + 300]))
        assert isinstance(outcome, Appended)
        head = outcome.events[-1].head
    last = await log.last("t", "s")
    assert last is not None
    return last


async def test_a_long_session_is_read_a_page_at_a_time_whole_and_in_order() -> None:
    for events in (1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE + 7):
        log = MemoryLog()
        last = await lasting(log, events)
        found = [page async for page in pages(log, KEY, last)]
        assert max(map(len, found)) <= PAGE
        assert [sequence(event) for page in found for event in page] == [*range(1, events + 1)]


async def test_large_events_come_few_at_a_time() -> None:
    log, long = MemoryLog(), "x" * (BYTES // 5)
    drafts = [draft(SessionClosed(reason=long), n) for n in range(1, FIRST + 11)]
    assert isinstance(await log.append(write("t", "s", None, drafts)), Appended)
    last = await log.last("t", "s")
    assert [len(page) async for page in pages(log, KEY, last)] == [FIRST, 4, 4, 2]


async def test_what_comes_while_it_is_read_is_not_in_it() -> None:
    log = MemoryLog()
    earlier = await lasting(log, 3)
    more = [draft(TurnExcluded(turn=1), n) for n in (4, 5)]
    assert isinstance(await log.append(write("t", "s", earlier.head, more)), Appended)
    assert [len(page) async for page in pages(log, KEY, earlier)] == [3]


async def test_from_what_cannot_be_read_on_everything_is_given_as_it_is_stored() -> None:
    log = MemoryLog()
    last = await lasting(log, PAGE + 9)
    await log.append(write("t", "another", None, [draft(TurnExcluded(turn=1), 1)]))
    for broken in (1, PAGE + 2, PAGE + 9):
        kept, log.stored[broken - 1] = log.stored[broken - 1], Raw("session.t.s.turn", broken, b"{")
        end = None if broken == last.sequence else last
        found = [told async for page in pages(log, KEY, end) for told in page]
        assert [told.stored for told in found] == [raw.stored for raw in log.stored[:-1] if raw]
        assert [told.number for told in found if isinstance(told, Unread)] == [broken]
        log.stored[broken - 1] = kept


async def test_an_event_that_was_altered_is_given_as_it_stands_there_now() -> None:
    log = MemoryLog()
    last = await lasting(log, 5)
    altered = (await log.at("t", [3]))[0].stored.replace(b'"turn":1', b'"turn":2')
    log.stored[2] = Raw("session.t.s.turn", 3, altered)
    found = [told async for page in pages(log, KEY, last) for told in page]
    assert [sequence(told) for told in found] == [1, 2, 3, 4, 5]
    assert found[2].stored == altered
