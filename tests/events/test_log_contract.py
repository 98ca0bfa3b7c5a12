"""What any log must do, in memory and on a real server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from tests.events.conftest import ContractStore
from tests.events.log_sessions import (
    append_one_by_one,
    append_texts,
    build_batch,
    list_sequences,
    read_past,
    require_appended,
    take_items,
)
from tests.events.log_sessions import build_submissions as said_by
from turnlog.events.codec import decode_event, encode_batch
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.turn_events import TurnExcluded
from turnlog.events.store.ports import BatchAlreadyStored, BatchAppended, BatchConflict
from turnlog.events.testing import make_drafts


async def test_appended_events_are_read_back_byte_for_byte(
    store: ContractStore, fresh_tenant: str
) -> None:
    batch = build_batch(fresh_tenant, "s", None, "hello")
    (event,) = require_appended(await store.log.append_batch(batch))
    assert event.stored == batch.messages[0].payload
    assert await store.log.read_last_event(fresh_tenant, "s") == event
    assert await store.log.read_last_event(fresh_tenant, "s", leader=True) == event


async def test_unopened_session_has_no_last_event(store: ContractStore, fresh_tenant: str) -> None:
    assert await store.log.read_last_event(fresh_tenant, "s") is None
    assert await store.log.read_last_event(fresh_tenant, "s", leader=True) is None


async def test_batch_is_stored_contiguously_and_numbered_in_order(
    store: ContractStore, fresh_tenant: str
) -> None:
    (first,) = await append_texts(store.log, fresh_tenant, "s", "one")
    events = await append_texts(
        store.log, fresh_tenant, "s", "two", "three", "four", after=first.head
    )
    assert list_sequences(events) == [2, 3, 4]
    places = [event.stream_sequence for event in events]
    assert places == list(range(places[0], places[0] + 3))
    assert await store.log.read_last_event(fresh_tenant, "s") == events[-1]


async def test_repeated_batch_is_already_stored(store: ContractStore, fresh_tenant: str) -> None:
    batch = build_batch(fresh_tenant, "s", None, "one", "two")
    events = require_appended(await store.log.append_batch(batch))
    assert await store.log.append_batch(batch) == BatchAlreadyStored(events)


async def test_repeated_batch_is_already_stored_behind_later_events(
    store: ContractStore, fresh_tenant: str
) -> None:
    batch = build_batch(fresh_tenant, "s", None, "one")
    (first,) = require_appended(await store.log.append_batch(batch))
    await append_one_by_one(
        log=store.log, tenant=fresh_tenant, session="s", count=3, after=first.head
    )
    assert await store.log.append_batch(batch) == BatchAlreadyStored((first,))


async def test_taken_position_is_a_conflict_that_names_the_sequence(
    store: ContractStore, fresh_tenant: str
) -> None:
    (first,) = await append_texts(store.log, fresh_tenant, "s", "one")
    await append_texts(store.log, fresh_tenant, "s", "two", "three", after=first.head)
    other = build_batch(fresh_tenant, "s", first.head, "other")
    assert await store.log.append_batch(other) == BatchConflict(3)
    opening_again = build_batch(fresh_tenant, "s", None, "other")
    assert await store.log.append_batch(opening_again) == BatchConflict(3)


async def test_conflicting_batch_stores_nothing(store: ContractStore, fresh_tenant: str) -> None:
    (first,) = await append_texts(store.log, fresh_tenant, "s", "one")
    (second,) = await append_texts(store.log, fresh_tenant, "s", "two", after=first.head)
    assert await store.log.append_batch(
        build_batch(fresh_tenant, "s", first.head, "a", "b", "c")
    ) == BatchConflict(2)
    assert await store.log.read_last_event(fresh_tenant, "s", leader=True) == second
    assert len(await read_past(store.log, fresh_tenant)) == 2


async def test_append_after_an_unknown_head_is_a_conflict(
    store: ContractStore, fresh_tenant: str
) -> None:
    unknown_head = ChainHead(7, 10**9, "sha256:" + "0" * 64)
    assert await store.log.append_batch(
        build_batch(fresh_tenant, "s", unknown_head, "one")
    ) == BatchConflict(0)


async def test_sessions_with_the_same_name_are_separate_across_tenants(
    store: ContractStore, fresh_tenant: str
) -> None:
    (own_event,) = await append_texts(store.log, fresh_tenant, "s", "mine")
    (other_event,) = await append_texts(store.log, f"{fresh_tenant}-2", "s", "theirs")
    assert await store.log.read_last_event(fresh_tenant, "s") == own_event
    assert await store.log.read_last_event(f"{fresh_tenant}-2", "s") == other_event
    with pytest.raises(Corrupt):
        await store.log.read_events_at(fresh_tenant, [other_event.stream_sequence])


async def test_exactly_one_of_fifty_concurrent_writers_wins(
    store: ContractStore, fresh_tenant: str
) -> None:
    (first,) = await append_texts(store.log, fresh_tenant, "s", "one")
    batches = [build_batch(fresh_tenant, "s", first.head, f"writer {n}") for n in range(50)]
    outcomes = await asyncio.gather(*(store.log.append_batch(batch) for batch in batches))
    assert len([o for o in outcomes if isinstance(o, BatchAppended)]) == 1
    assert outcomes.count(BatchConflict(2)) == 49
    assert len(await read_past(store.log, fresh_tenant)) == 2


async def test_fifty_retrying_writers_leave_one_gapless_session(
    store: ContractStore, fresh_tenant: str
) -> None:
    await append_texts(store.log, fresh_tenant, "s", "one")

    async def write_at_last(name: str) -> None:
        while True:
            head = await store.log.read_last_event(fresh_tenant, "s", leader=True)
            assert head
            outcome = await store.log.append_batch(build_batch(fresh_tenant, "s", head.head, name))
            if isinstance(outcome, BatchAppended):
                return
            assert isinstance(outcome, BatchConflict)

    await asyncio.gather(*(write_at_last(f"writer {n}") for n in range(50)))
    head = await store.log.read_last_event(fresh_tenant, "s", leader=True)
    assert head
    events = await store.log.read_range(fresh_tenant, "s", None, head)
    assert list_sequences(events) == list(range(1, 52))


@pytest.mark.parametrize("length", [1, 2, 9, 30])
async def test_range_of_any_length_is_complete_and_in_order(
    store: ContractStore, fresh_tenant: str, length: int
) -> None:
    events = await append_one_by_one(store.log, fresh_tenant, "s", 3)
    for _ in range(length):
        await append_texts(store.log, fresh_tenant, f"other-{len(events)}", "between")
        events += await append_one_by_one(
            log=store.log, tenant=fresh_tenant, session="s", count=1, after=events[-1].head
        )
    tail = await store.log.read_range(fresh_tenant, "s", events[2].head, events[-1])
    assert list(tail) == events[3:]


async def test_range_across_batches_is_complete(store: ContractStore, fresh_tenant: str) -> None:
    events = list(await append_texts(store.log, fresh_tenant, "s", "1", "2", "3"))
    events += await append_texts(store.log, fresh_tenant, "s", "4", after=events[-1].head)
    events += await append_texts(store.log, fresh_tenant, "s", "5", "6", after=events[-1].head)
    assert list(await store.log.read_range(fresh_tenant, "s", None, events[-1])) == events


async def test_next_events_are_read_by_count_from_any_head(
    store: ContractStore, fresh_tenant: str
) -> None:
    log = store.log
    events = [*await append_texts(log, fresh_tenant, "s", "one", "two", "three")]
    await append_one_by_one(log, fresh_tenant, "other", 5)
    events += await append_texts(log, fresh_tenant, "s", "four", after=events[-1].head)
    assert await log.read_next_events(fresh_tenant, "s", None, 2) == events[:2]
    assert await log.read_next_events(fresh_tenant, "s", events[1].head, 2) == events[2:]
    assert await log.read_next_events(fresh_tenant, "s", events[1].head, 9) == events[2:]
    assert await log.read_next_events(fresh_tenant, "s", events[-1].head, 1) == []
    other = replace(events[0].head, hash=events[2].head.hash)
    with pytest.raises(Corrupt):
        await log.read_next_events(fresh_tenant, "s", other, 2)


@pytest.mark.parametrize("alone", [True, False])
async def test_any_event_is_found_by_its_sequence(
    store: ContractStore, fresh_tenant: str, *, alone: bool
) -> None:
    log, events, head = store.log, list[RecordedEvent](), None
    for number in range(40):
        # Others write in between: ever more, so that no place follows from a sequence
        others = 0 if alone else number // 4
        await append_one_by_one(log, fresh_tenant, f"other-{number}", others)
        events += await append_texts(log, fresh_tenant, "s", "one", "two", after=head)
        head = events[-1].head
    found = [await log.find_event(fresh_tenant, "s", n + 1, events[-1]) for n in range(len(events))]
    assert found == events


async def test_all_events_of_a_leaf_are_read_wherever_they_are_stored(
    store: ContractStore, fresh_tenant: str
) -> None:
    log, head = store.log, None
    marks, others = list[RecordedEvent](), list[RecordedEvent]()
    for number in range(1, 5):
        drafts = make_drafts([*said_by("one", first=number), TurnExcluded(turn=number)], 2 * number)
        batch = encode_batch(fresh_tenant, "s", head, drafts)
        *_, mark = added = require_appended(await log.append_batch(batch))
        marks, others, head = [*marks, mark], [*others, added[0]], mark.head
        await append_one_by_one(log, fresh_tenant, f"other-{number}", number)
    leaf = TurnExcluded.leaf
    assert list(await log.read_events_by_leaf(fresh_tenant, "s", leaf, marks[-1].head)) == marks
    assert list(await log.read_events_by_leaf(fresh_tenant, "s", leaf, others[2].head)) == marks[:2]
    assert list(await log.read_events_by_leaf(fresh_tenant, "s", "phase", marks[-1].head)) == []
    assert list(await log.read_events_by_leaf(fresh_tenant, "other-1", leaf, marks[-1].head)) == []
    raws = await log.read_raw_events_by_leaf(fresh_tenant, leaf)
    assert [raw.stored for raw in raws] == [mark.stored for mark in marks]
    assert list(await log.read_raw_events_by_leaf(fresh_tenant, "phase")) == []


async def test_range_between_an_event_and_itself_is_empty(
    store: ContractStore, fresh_tenant: str
) -> None:
    (event,) = await append_texts(store.log, fresh_tenant, "s", "one")
    assert list(await store.log.read_range(fresh_tenant, "s", event.head, event)) == []


async def test_events_are_read_by_position_in_the_requested_order(
    store: ContractStore, fresh_tenant: str
) -> None:
    events = await append_one_by_one(store.log, fresh_tenant, "s", 3)
    places = [events[2].stream_sequence, events[0].stream_sequence, events[2].stream_sequence]
    assert list(await store.log.read_events_at(fresh_tenant, places)) == [
        events[2],
        events[0],
        events[2],
    ]
    assert list(await store.log.read_events_at(fresh_tenant, [])) == []


@pytest.mark.parametrize("place", [0, 10**9])
async def test_position_without_an_event_raises_corrupt(
    store: ContractStore, fresh_tenant: str, place: int
) -> None:
    with pytest.raises(Corrupt):
        await store.log.read_events_at(fresh_tenant, [place])


async def test_stream_returns_the_past_of_one_tenant_and_ends(
    store: ContractStore, fresh_tenant: str
) -> None:
    mine = await append_one_by_one(store.log, fresh_tenant, "a", 2)
    await append_texts(store.log, f"{fresh_tenant}-2", "b", "theirs")
    mine += await append_one_by_one(store.log, fresh_tenant, "c", 1)
    raws = await read_past(store.log, fresh_tenant)
    assert [decode_event(raw.stored, raw.stream_sequence) for raw in raws] == mine
    assert raws[0].subject == f"session.{fresh_tenant}.a.turn.submitted"
    behind = await read_past(store.log, fresh_tenant, mine[0].stream_sequence)
    assert [raw.stored for raw in behind] == [event.stored for event in mine[1:]]


async def test_stream_of_a_tenant_without_events_ends_at_once(
    store: ContractStore, fresh_tenant: str
) -> None:
    await append_texts(store.log, f"{fresh_tenant}-2", "b", "theirs")
    assert await read_past(store.log, fresh_tenant) == []


async def test_stream_without_a_tenant_returns_events_of_all_tenants(
    store: ContractStore, fresh_tenant: str
) -> None:
    (own_event,) = await append_texts(store.log, fresh_tenant, "a", "mine")
    (other_event,) = await append_texts(store.log, f"{fresh_tenant}-2", "b", "theirs")
    raws = await read_past(store.log, None, own_event.stream_sequence - 1)
    assert [raw.stored for raw in raws] == [own_event.stored, other_event.stored]


async def test_live_stream_continues_with_new_events(
    store: ContractStore, fresh_tenant: str
) -> None:
    events = await append_one_by_one(store.log, fresh_tenant, "s", 3)
    async with aclosing(store.log.stream_raw_events(fresh_tenant, 0, live=True)) as bulks:
        places = [raw.stream_sequence for raw in (await take_items(bulks, 1))[0]]
        while len(places) < 3:
            places += [raw.stream_sequence for raw in (await take_items(bulks, 1))[0]]
        events += await append_one_by_one(
            log=store.log, tenant=fresh_tenant, session="s", count=3, after=events[-1].head
        )
        while len(places) < 6:
            places += [raw.stream_sequence for raw in (await take_items(bulks, 1))[0]]
    assert places == [event.stream_sequence for event in events]


@pytest.mark.parametrize("after", [0, 7, 25, 40])
async def test_watch_joins_past_and_live_events_without_gap_or_repeat(
    store: ContractStore, fresh_tenant: str, after: int
) -> None:
    events = await append_one_by_one(store.log, fresh_tenant, "s", 25)
    growing = asyncio.create_task(
        append_one_by_one(
            log=store.log, tenant=fresh_tenant, session="s", count=60, after=events[-1].head
        )
    )
    async with aclosing(store.log.watch_session(fresh_tenant, "s", after)) as watched:
        seen = await take_items(watched, 85 - after)
    assert seen == (events + await growing)[after:]


async def test_watch_of_an_unopened_session_returns_its_first_event(
    store: ContractStore, fresh_tenant: str
) -> None:
    async with aclosing(store.log.watch_session(fresh_tenant, "s")) as watched:
        first = asyncio.create_task(anext(watched))
        (event,) = await append_texts(store.log, fresh_tenant, "s", "one")
        assert await first == event


async def test_slow_watcher_misses_nothing(store: ContractStore, fresh_tenant: str) -> None:
    (first,) = await append_texts(store.log, fresh_tenant, "s", "one")
    async with aclosing(store.log.watch_session(fresh_tenant, "s")) as watched:
        assert await take_items(watched, 1) == [first]
        text = "x" * 200_000
        head = first.head
        for _ in range(40):  # more bytes than any reader is given room for
            (event,) = await append_texts(store.log, fresh_tenant, "s", text, after=head)
            head = event.head
        assert list_sequences(await take_items(watched, 40)) == list(range(2, 42))


async def test_log_has_one_identity_for_all_tenants(
    store: ContractStore, fresh_tenant: str
) -> None:
    identity = await store.log.get_identity(fresh_tenant)
    assert identity == await store.log.get_identity(f"{fresh_tenant}-2")
    assert identity.stream == "SESSIONS"
    assert identity.created.endswith("Z")


async def test_log_lists_the_tenants_that_have_a_history(
    store: ContractStore, fresh_tenant: str
) -> None:
    history = f"h-{fresh_tenant}"
    assert [*await store.log.list_tenants(history)] == []
    for tenant in ("b", "a", "c"):
        await append_texts(store.log, tenant, history, "one", "two")
    await append_texts(store.log, "d", f"{history}-2", "one")
    assert [*await store.log.list_tenants(history)] == ["a", "b", "c"]


async def test_log_returns_its_last_stream_sequence(
    store: ContractStore, fresh_tenant: str
) -> None:
    (event,) = await append_texts(store.log, fresh_tenant, "s", "one")
    assert await store.log.get_last_stream_sequence(fresh_tenant) == event.stream_sequence
    events = await append_texts(store.log, fresh_tenant, "s", "two", "three", after=event.head)
    assert (
        await store.log.get_last_stream_sequence(f"{fresh_tenant}-2") == events[-1].stream_sequence
    )


@pytest.mark.parametrize("bad", ["", "a.b", "*", ">", "a b", "ä"])
async def test_invalid_id_is_refused_with_its_field(
    store: ContractStore, fresh_tenant: str, bad: str
) -> None:
    with pytest.raises(Refused) as refusal:
        await store.log.read_last_event(fresh_tenant, bad)
    assert refusal.value.field == "session"
    with pytest.raises(Refused):
        await store.log.get_identity(bad)
