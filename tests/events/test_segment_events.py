"""Events of the library: their bytes, their one history a tenant, and who cannot disturb it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import pytest_asyncio

from tests.events.golden_library_bytes import encode_event, get_golden_path
from tests.events.log_sessions import require_appended, take_items
from tests.support.generators.event_samples import build_library_samples
from turnlog.events.codec import (
    EventBatch,
    EventDraft,
    decode_event,
    decode_library_event,
    encode_batch,
)
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.segment_events import (
    SEGMENT_FAMILY,
    NewSegment,
    SegmentsAdded,
    SegmentText,
)
from turnlog.events.registry import LIBRARY_EVENT_TYPES, UnknownEvent, format_event_name
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import BatchAlreadyStored, BatchAppended, BatchConflict, EventLog
from turnlog.events.subjects import LIBRARY_HISTORY, LIBRARY_STREAM
from turnlog.events.testing import FIRST_EVENT_TIME, make_id

NAMES = sorted(build_library_samples())


def build_added(*texts: str, first: int = 1) -> SegmentsAdded:
    return SegmentsAdded(
        segments=tuple(
            NewSegment(
                id=number,
                scope="core",
                text=SegmentText(digest=compute_digest(text), characters=len(text)),
            )
            for number, text in enumerate(texts, first)
        )
    )


def build_batch(tenant: str, after: ChainHead | None, *texts: str) -> EventBatch:
    first = after.sequence + 1 if after else 1
    drafts = [
        EventDraft(
            event=build_added(text, first=number),
            id=make_id(number),
            at=FIRST_EVENT_TIME,
            source="/test",
            actor="ann",
        )
        for number, text in enumerate(texts, first)
    ]
    return encode_batch(
        tenant=tenant, session=SEGMENT_FAMILY, after=after, drafts=drafts, kind=LIBRARY_HISTORY
    )


@pytest_asyncio.fixture(params=["memory", "jetstream"])
async def library(request: pytest.FixtureRequest, nats_url: str) -> AsyncIterator[EventLog]:
    if request.param == "memory":
        yield MemoryLog(kind=LIBRARY_HISTORY)
        return
    async with open_client(nats_url, StreamOptions()) as on:
        yield on.library


def test_every_event_type_has_golden_bytes() -> None:
    assert {event.type for event in build_library_samples().values()} == set(LIBRARY_EVENT_TYPES)


@pytest.mark.parametrize("name", NAMES)
def test_golden_bytes_are_decoded_and_written_unchanged(name: str) -> None:
    event = build_library_samples()[name]
    stored = get_golden_path(name, event).read_bytes()
    assert decode_library_event(decode_event(stored, 42)) == event
    assert format_event_name(event.type) == name
    assert encode_event(event) == stored


def test_library_event_of_a_later_release_is_unknown_and_a_broken_one_is_corrupt() -> None:
    wire = json.loads(encode_event(build_added("x")))
    later = wire | {"type": "turnlog.prices-edited.v1"}
    assert isinstance(
        decode_library_event(decode_event(json.dumps(later).encode(), 1)), UnknownEvent
    )
    broken = wire | {"data": {"segments": [{"id": "one"}]}}
    with pytest.raises(Corrupt, match=r"LIBRARY, stream sequence 9"):
        decode_library_event(decode_event(json.dumps(broken).encode(), 9))


def test_tenant_name_cannot_reach_the_library_of_another_tenant() -> None:
    with pytest.raises(Refused):
        build_batch("a.>", None, "x")
    assert build_batch("acme", None, "x").subjects == "library.acme.segments.>"
    assert build_batch("acme", None, "x").messages[0].subject == "library.acme.segments.added"


async def test_library_is_one_chained_history(library: EventLog, fresh_tenant: str) -> None:
    (first,) = require_appended(await library.append_batch(build_batch(fresh_tenant, None, "one")))
    events = require_appended(
        await library.append_batch(build_batch(fresh_tenant, first.head, "two", "three"))
    )
    last = await library.read_last_event(fresh_tenant, SEGMENT_FAMILY, leader=True)
    assert last is not None
    assert last == events[-1]
    assert list(await library.read_range(fresh_tenant, SEGMENT_FAMILY, None, last)) == [
        first,
        *events,
    ]
    assert events[0].envelope.prevhash == first.head.hash
    assert (last.session, last.sequence) == (SEGMENT_FAMILY, 3)


async def test_library_supports_every_read_that_a_session_does(
    library: EventLog, fresh_tenant: str
) -> None:
    events = require_appended(
        await library.append_batch(build_batch(fresh_tenant, None, "one", "two", "three"))
    )
    first, second, third = events
    family = (fresh_tenant, SEGMENT_FAMILY)
    assert await library.get_identity(fresh_tenant) == await library.get_identity("other")
    assert (await library.get_identity(fresh_tenant)).stream == LIBRARY_STREAM
    assert await library.get_last_stream_sequence(fresh_tenant) >= third.stream_sequence
    assert list(await library.read_next_events(*family, first.head, 5)) == [second, third]
    assert await library.find_event(*family, 2, third) == second
    assert list(await library.read_events_by_leaf(*family, "added", second.head)) == [first, second]
    places = [event.stream_sequence for event in (third, first)]
    assert list(await library.read_events_at(fresh_tenant, places)) == [third, first]
    async with aclosing(library.watch_session(*family, 1)) as watched:
        assert await take_items(watched, 2) == [second, third]
    async with aclosing(library.stream_raw_events(fresh_tenant, 0, live=False)) as bulks:
        raws = [raw async for bulk in bulks for raw in bulk]
    assert [raw.stored for raw in raws] == [event.stored for event in events]


async def test_library_of_an_invalid_tenant_is_refused(
    library: EventLog,
) -> None:
    with pytest.raises(Refused, match="is not an id"):
        await library.get_identity("a.>")


async def test_repeated_batch_is_already_stored_and_another_one_conflicts(
    library: EventLog, fresh_tenant: str
) -> None:
    batch = build_batch(fresh_tenant, None, "one", "two")
    events = require_appended(await library.append_batch(batch))
    assert await library.append_batch(batch) == BatchAlreadyStored(events)
    assert await library.append_batch(build_batch(fresh_tenant, None, "other")) == BatchConflict(2)


async def test_exactly_one_of_twenty_concurrent_editors_wins(
    library: EventLog, fresh_tenant: str
) -> None:
    batches = [build_batch(fresh_tenant, None, f"editor {n}") for n in range(20)]
    outcomes = await asyncio.gather(*(library.append_batch(batch) for batch in batches))
    assert len([o for o in outcomes if isinstance(o, BatchAppended)]) == 1
    assert outcomes.count(BatchConflict(1)) == 19


async def test_session_and_library_of_one_tenant_are_separate(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    (event,) = require_appended(
        await jetstream.library.append_batch(build_batch(fresh_tenant, None, "one"))
    )
    assert await jetstream.log.read_last_event(fresh_tenant, SEGMENT_FAMILY, leader=True) is None
    async with aclosing(
        jetstream.library.stream_raw_events(None, event.stream_sequence - 1, live=True)
    ) as bulks:
        ((raw, *_),) = await take_items(bulks, 1)
    assert raw.stored == event.stored
