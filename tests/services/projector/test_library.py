"""Segment rows follow the library's log through faults of either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from sqlalchemy import text

from tests.parts.library import Library
from turnlog.events.codec import Draft, write_library
from turnlog.events.content import digest_of
from turnlog.events.errors import Corrupt
from turnlog.events.library import SEGMENTS
from turnlog.events.log.library import MemoryLibrary
from turnlog.events.log.memory import MemoryBlobs, MemoryLog
from turnlog.events.log.ports import Raw
from turnlog.events.testing import AT
from turnlog.events.testing.library_samples import library_samples
from turnlog.projections.library.authored import Authored
from turnlog.projections.library.commands import EditSegment
from turnlog.projections.store.engine import Store
from turnlog.projections.store.library import checkpoint, folded
from turnlog.projections.store.reach import Bell, come_to
from turnlog.projections.store.segments import SegmentRow, Sought, segments
from turnlog.services.projector.library import LibraryProjector
from turnlog.services.runtime.tasks import stopped

ANYTHING = Sought()


def projector(library: Library, store: Store) -> LibraryProjector:
    return LibraryProjector(library.log, library.blobs, store, library.tenant, Bell())


@asynccontextmanager
async def following(projecting: LibraryProjector) -> AsyncGenerator[asyncio.Task[None]]:
    task = asyncio.create_task(projecting.run())
    try:
        yield task
    finally:
        await stopped(task)


async def caught_up(projecting: LibraryProjector, library: Library) -> None:
    sequence = (await library.shelf()).sequence
    look = partial(folded, projecting.store, library.tenant)
    assert await come_to(projecting.bell, look, sequence, within=20)


async def rows(
    store: Store, tenant: str, sought: Sought = ANYTHING, *, after: int = 0, limit: int = 100
) -> list[SegmentRow]:
    async with store.reading() as connection:
        found, _ = await segments(connection, tenant, sought, after=after, limit=limit)
    return list(found)


async def test_rows_say_what_every_variant_of_a_segment_says_now(store: Store) -> None:
    library = Library()
    projecting = projector(library, store)
    async with following(projecting):
        await library.add("core", "Be kind.", tier=1, type="rule", priority="high", locale="en")
        await library.add("npc", "He nods.", "npc.a")
        await library.act(EditSegment(1, content="Be kinder."))
        await library.act(EditSegment(1, "b", content="Be stern."))
        await library.act(EditSegment(2, active=False))
        await caught_up(projecting, library)
        found = await rows(store, library.tenant)
    told = [(row.id, row.variant, row.content, row.version, row.active) for row in found]
    assert told == [
        (1, "a", "Be kinder.", 2, True),
        (1, "b", "Be stern.", 3, True),
        (2, "a", "He nods.", 1, False),
    ]
    assert (found[0].tier, found[0].type, found[0].priority, found[0].locale) == (
        1,
        "rule",
        "high",
        "en",
    )
    assert found[0].edited_by == "tester"


async def test_segments_are_found_by_what_they_are_and_say_page_by_page(store: Store) -> None:
    library = Library()
    await library.take_in(
        *(Authored("core", f"Rule {n}: be KIND.", locale="en") for n in range(5)),
        Authored("npc", "100% sure.", "npc.a", type="npc_cue", active=False),
    )
    await library.act(EditSegment(2, "b", content="Be stern."))
    await projector(library, store).rebuild()
    find = partial(rows, store, library.tenant)
    assert [row.id for row in await find(Sought(scope="npc"))] == [6]
    assert [row.id for row in await find(Sought(ref="npc.a", type="npc_cue"))] == [6]
    assert [row.id for row in await find(Sought(active=False))] == [6]
    assert [row.id for row in await find(Sought(q="be kind"))] == [1, 2, 3, 4, 5]
    assert [row.id for row in await find(Sought(q="100%"))] == [6]
    assert [row.id for row in await find(Sought(q="100_"))] == []
    assert [row.id for row in await find(after=1, limit=2)] == [2, 2, 3]
    assert [row.id for row in await find(after=3, limit=2)] == [4, 5]
    assert await rows(store, "other") == []


async def test_what_was_edited_while_nobody_folded_is_there_afterwards(store: Store) -> None:
    library = Library()
    projecting = projector(library, store)
    await library.add("core", "one")
    async with following(projecting):
        await caught_up(projecting, library)
    await library.act(EditSegment(1, content="two"))
    async with following(projecting):
        await caught_up(projecting, library)
    assert [row.content for row in await rows(store, library.tenant)] == ["two"]


async def test_two_projectors_come_to_the_rows_of_one(store: Store) -> None:
    library = Library()
    projecting = projector(library, store)
    async with following(projecting), following(projector(library, store)):
        for number in range(10):
            await library.add("core", f"text {number}")
        await caught_up(projecting, library)
    live = await rows(store, library.tenant)
    assert [row.content for row in live] == [f"text {number}" for number in range(10)]
    await projecting.rebuild()
    assert await rows(store, library.tenant) == live


async def test_rows_that_somebody_damaged_are_right_after_a_rebuild(store: Store) -> None:
    library = Library()
    await library.add("core", "one")
    await projector(library, store).rebuild()
    right = await rows(store, library.tenant)
    async with store.writing() as connection:
        await connection.execute(text("UPDATE segments SET content = 'forged'"))
    await projector(library, store).rebuild()
    assert await rows(store, library.tenant) == right
    async with store.reading() as connection:
        count = await connection.scalar(text("SELECT count(*) FROM segments"))
    assert count == 1


async def test_another_library_is_never_folded_onto_these_rows(store: Store) -> None:
    library = Library()
    await library.add("core", "one")
    await projector(library, store).rebuild()
    other = Library(MemoryLibrary(MemoryLog(created="2030-01-01T00:00:00Z")))
    await other.add("core", "another")
    with pytest.raises(Corrupt, match="rebuild"):
        await projector(other, store).run()
    rolled_back = Library()
    await rolled_back.add("core", "different")
    with pytest.raises(Corrupt, match="rebuild"):
        await projector(rolled_back, store).run()
    assert [row.content for row in await rows(store, library.tenant)] == ["one"]


async def test_a_bad_event_stops_its_own_tenant_only(store: Store) -> None:
    log, blobs = MemoryLibrary(), MemoryBlobs()
    mine, theirs = Library(log, blobs), Library(log, blobs, tenant="theirs")
    await mine.add("core", "one")
    event = library_samples()["segments-added"]
    batch = write_library("t", SEGMENTS, None, [Draft(event, "bad", AT, "/test", "eve")])
    log.log.stored.append(Raw("library.t.segments.added", 2, batch.messages[0].payload))
    await theirs.add("core", "two")
    projecting = projector(mine, store)
    async with following(projecting):
        await caught_up(projecting, theirs)
    assert [row.content for row in await rows(store, "theirs")] == ["two"]
    assert [row.content for row in await rows(store, "t")] == ["one"]
    async with store.reading() as connection:
        reason = await connection.scalar(text("SELECT stopped FROM libraries WHERE tenant = 't'"))
    assert "sequence 1 where 2 is due" in str(reason)


async def test_a_text_that_is_gone_leaves_its_row_without_one(store: Store) -> None:
    blobs = MemoryBlobs()
    library = Library(blobs=blobs)
    await library.add("core", "one")
    blobs.held.pop((library.tenant, digest_of("one")))
    await projector(library, store).rebuild()
    (row,) = await rows(store, library.tenant)
    assert (row.content, row.digest) == (None, digest_of("one"))
    async with store.reading() as connection:
        at = await checkpoint(connection)
    assert at is not None
    assert at.position == 1
