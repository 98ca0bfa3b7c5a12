from __future__ import annotations

from turnlog.events.codec import write
from turnlog.events.content import digest_of
from turnlog.events.envelope import Head, Recorded
from turnlog.events.log.memory import MemoryLog
from turnlog.events.log.outcomes import Appended
from turnlog.events.session import BlueprintRef, SessionOpened
from turnlog.events.testing import draft
from turnlog.events.turn import TurnExcluded
from turnlog.services.runtime.pages import PAGE, pages


async def lasting(log: MemoryLog, events: int) -> Recorded:
    """Record a session of so many events; gives the last."""
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
        found = [page async for page in pages(log, last)]
        assert max(map(len, found)) <= PAGE
        read = [event.sequence for page in found for event in page]
        assert read == list(range(1, events + 1))


async def test_what_comes_while_it_is_read_is_not_in_it() -> None:
    log = MemoryLog()
    earlier = await lasting(log, 3)
    more = [draft(TurnExcluded(turn=1), n) for n in (4, 5)]
    assert isinstance(await log.append(write("t", "s", earlier.head, more)), Appended)
    assert [len(page) async for page in pages(log, earlier)] == [3]
