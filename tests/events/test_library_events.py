"""Events of the library: their bytes, their one history a tenant, and who cannot disturb it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import pytest_asyncio

from tests.events.golden_library import bytes_of, path_of
from tests.events.sessions import appended, take
from turnlog.events.codec import Batch, Draft, read, write_library
from turnlog.events.content import digest_of
from turnlog.events.envelope import Head
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.kinds import Unknown, name_of
from turnlog.events.library import (
    LIBRARY_KINDS,
    SEGMENTS,
    NewSegment,
    SegmentsAdded,
    SegmentText,
    understood,
)
from turnlog.events.log.library import LibraryLog, MemoryLibrary
from turnlog.events.log.outcomes import AlreadyThere, Appended, Conflicted
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.opening import JetStream, opened
from turnlog.events.testing import AT, an_id
from turnlog.events.testing.library_samples import library_samples

NAMES = sorted(library_samples())


def added(*texts: str, first: int = 1) -> SegmentsAdded:
    return SegmentsAdded(
        segments=tuple(
            NewSegment(
                id=number,
                scope="core",
                text=SegmentText(digest=digest_of(text), characters=len(text)),
            )
            for number, text in enumerate(texts, first)
        )
    )


def batch_of(tenant: str, after: Head | None, *texts: str) -> Batch:
    first = after.sequence + 1 if after else 1
    drafts = [
        Draft(added(text, first=number), an_id(number), AT, "/test", "ann")
        for number, text in enumerate(texts, first)
    ]
    return write_library(tenant, SEGMENTS, after, drafts)


@pytest_asyncio.fixture(params=["memory", "jetstream"])
async def library(request: pytest.FixtureRequest, nats_url: str) -> AsyncIterator[LibraryLog]:
    if request.param == "memory":
        yield MemoryLibrary()
        return
    async with opened(nats_url, Terms()) as on:
        yield on.library


def test_there_are_golden_bytes_of_every_kind() -> None:
    assert {event.type for event in library_samples().values()} == set(LIBRARY_KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_golden_bytes_are_read_and_written_as_they_were(name: str) -> None:
    event = library_samples()[name]
    stored = path_of(name, event).read_bytes()
    assert understood(read(stored, 42)) == event
    assert name_of(event.type) == name
    assert bytes_of(event) == stored


def test_what_a_later_release_writes_is_unknown_and_what_none_writes_is_corrupt() -> None:
    wire = json.loads(bytes_of(added("x")))
    later = wire | {"type": "turnlog.quota-edited.v1"}
    assert isinstance(understood(read(json.dumps(later).encode(), 1)), Unknown)
    broken = wire | {"data": {"segments": [{"id": "one"}]}}
    with pytest.raises(Corrupt, match=r"LIBRARY, stream sequence 9"):
        understood(read(json.dumps(broken).encode(), 9))


def test_no_tenant_spells_its_way_into_anothers_library() -> None:
    with pytest.raises(Refused):
        batch_of("a.>", None, "x")
    assert batch_of("acme", None, "x").subjects == "library.acme.segments.>"
    assert batch_of("acme", None, "x").messages[0].subject == "library.acme.segments.added"


async def test_a_library_is_one_chained_history(library: LibraryLog, fresh_tenant: str) -> None:
    (first,) = appended(await library.append(batch_of(fresh_tenant, None, "one")))
    events = appended(await library.append(batch_of(fresh_tenant, first.head, "two", "three")))
    last = await library.last(fresh_tenant, SEGMENTS, leader=True)
    assert last is not None
    assert last == events[-1]
    assert list(await library.between(fresh_tenant, SEGMENTS, None, last)) == [first, *events]
    assert events[0].envelope.prevhash == first.head.hash
    assert (last.session, last.sequence) == (SEGMENTS, 3)


async def test_the_same_bytes_again_are_already_there_and_others_conflict(
    library: LibraryLog, fresh_tenant: str
) -> None:
    batch = batch_of(fresh_tenant, None, "one", "two")
    events = appended(await library.append(batch))
    assert await library.append(batch) == AlreadyThere(events)
    assert await library.append(batch_of(fresh_tenant, None, "other")) == Conflicted(2)


async def test_of_twenty_editors_at_one_place_exactly_one_wins(
    library: LibraryLog, fresh_tenant: str
) -> None:
    batches = [batch_of(fresh_tenant, None, f"editor {n}") for n in range(20)]
    outcomes = await asyncio.gather(*(library.append(batch) for batch in batches))
    assert len([o for o in outcomes if isinstance(o, Appended)]) == 1
    assert outcomes.count(Conflicted(1)) == 19


async def test_a_session_and_a_library_of_one_tenant_do_not_meet(
    jetstream: JetStream, fresh_tenant: str
) -> None:
    (event,) = appended(await jetstream.library.append(batch_of(fresh_tenant, None, "one")))
    assert await jetstream.log.last(fresh_tenant, SEGMENTS, leader=True) is None
    async with aclosing(jetstream.library.follow(event.stream_sequence - 1, live=True)) as bulks:
        ((raw, *_),) = await take(bulks, 1)
    assert raw.stored == event.stored
