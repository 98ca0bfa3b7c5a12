"""Messages that a stranger published under a session's subjects: stray ones, and forged events."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace

import pytest

from tests.events.log_sessions import append_one_by_one, append_texts, build_batch, take_items
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, UnreadableEnd
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.events.store.ports import BatchAlreadyStored, BatchAppended


def build_foreign_messages(events: list[RecordedEvent], tenant: str) -> dict[str, bytes]:
    """Return what a client of NATS may publish behind the events of a session."""
    last = json.loads(events[-1].stored)
    continued = last | {"sequence": last["sequence"] + 1}
    return {
        "not JSON": b"junk",
        "empty": b"",
        "no envelope": b"{}",
        "a number": b"17",
        "another version of the envelope": json.dumps(continued | {"specversion": "2.0"}).encode(),
        "an unknown event without a link": json.dumps(
            continued | {"type": "turnlog.turn-submitted.v9"}
        ).encode(),
        "an event of another session": json.dumps(continued | {"subject": "else"}).encode(),
        "the last event once more": events[-1].stored,
        "the first event once more": events[0].stored,
        "huge": b"x" * 900_000,
        "deep": b"[" * 100_000,
        "an event of another tenant": json.dumps(continued | {"tenant": f"{tenant}-2"}).encode(),
    }


FORGED = (
    "another version of the envelope",
    "an unknown event without a link",
    "the last event once more",
    "the first event once more",
)

STRAY = (
    "not JSON",
    "empty",
    "no envelope",
    "a number",
    "an event of another session",
    "an event of another tenant",
    "huge",
    "deep",
)


@pytest.mark.promise("P13")
@pytest.mark.parametrize("length", [1, 12])
@pytest.mark.parametrize("name", STRAY)
async def test_stray_messages_are_passed_over_by_readers_and_appends(
    jetstream: JetStreamClient, fresh_tenant: str, name: str, length: int
) -> None:
    log = jetstream.log
    events = await append_one_by_one(log, fresh_tenant, "s", length)
    stray = build_foreign_messages(events, fresh_tenant)[name]
    js = jetstream.connection.nc.jetstream()
    assert not await log.has_stray_messages(fresh_tenant, "s")
    async with aclosing(log.watch_session(fresh_tenant, "s")) as watched:
        assert await take_items(watched, length) == events
        for _ in range(3):
            await js.publish(f"session.{fresh_tenant}.s.turn", stray)
        assert await log.has_stray_messages(fresh_tenant, "s")
        for leader in (False, True):
            assert await log.read_last_event(fresh_tenant, "s", leader=leader) == events[-1]
        assert await log.find_unreadable_end(fresh_tenant, "s") is None
        later = [*await append_texts(log, fresh_tenant, "s", "on", "and on", after=events[-1].head)]
        await js.publish(f"session.{fresh_tenant}.s.turn.submitted", stray)
        later += await append_texts(log, fresh_tenant, "s", "again", after=later[-1].head)
        assert await take_items(watched, 3) == later
    events += later
    last = events[-1]
    for leader in (False, True):
        assert await log.read_last_event(fresh_tenant, "s", leader=leader) == last
    assert await log.find_unreadable_end(fresh_tenant, "s") is None
    assert list(await log.read_range(fresh_tenant, "s", None, last)) == events
    assert list(await log.read_next_events(fresh_tenant, "s", None, 100)) == events
    assert await log.find_event(fresh_tenant, "s", length, last) == events[length - 1]
    found = await log.read_events_by_leaf(fresh_tenant, "s", "turn.submitted", last.head)
    assert list(found) == events
    async with aclosing(log.watch_session(fresh_tenant, "s")) as watched:
        assert await take_items(watched, len(events)) == events


async def test_append_finds_the_last_event_before_a_hundred_stray_messages(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    log, nc = jetstream.log, jetstream.connection.nc
    events = await append_one_by_one(log, fresh_tenant, "s", 3)
    for number in range(150):
        await nc.publish(f"session.{fresh_tenant}.s.turn", b"junk")
        await nc.publish(f"session.{fresh_tenant}.other-{number}.turn", b"junk")
    await jetstream.connection.nc.jetstream().publish(f"session.{fresh_tenant}.s.turn", b"junk")
    assert await log.read_last_event(fresh_tenant, "s", leader=True) == events[-1]
    (later,) = await append_texts(log, fresh_tenant, "s", "on", after=events[-1].head)
    assert await log.read_last_event(fresh_tenant, "s", leader=True) == later


async def test_two_appends_behind_a_stray_message_have_one_winner(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    log = jetstream.log
    events = await append_one_by_one(log, fresh_tenant, "s", 2)
    await jetstream.connection.nc.jetstream().publish(f"session.{fresh_tenant}.s.turn", b"junk")
    batches = [build_batch(fresh_tenant, "s", events[-1].head, text) for text in "abcd"]
    outcomes = await asyncio.gather(*(log.append_batch(batch) for batch in batches))
    assert sorted(type(each).__name__ for each in outcomes) == [
        "BatchAppended",
        "BatchConflict",
        "BatchConflict",
        "BatchConflict",
    ]
    won = [isinstance(each, BatchAppended) for each in outcomes].index(True)
    assert isinstance(await log.append_batch(batches[won]), BatchAlreadyStored)


@pytest.mark.parametrize("length", [1, 12])
@pytest.mark.parametrize("name", FORGED)
async def test_readers_get_the_events_before_a_forged_one_and_appends_are_refused(
    jetstream: JetStreamClient, fresh_tenant: str, name: str, length: int
) -> None:
    log = jetstream.log
    events = await append_one_by_one(log, fresh_tenant, "s", length)
    foreign = build_foreign_messages(events, fresh_tenant)[name]
    js = jetstream.connection.nc.jetstream()
    stored = [await js.publish(f"session.{fresh_tenant}.s.turn", foreign) for _ in range(2)]
    for leader in (False, True):
        assert await log.read_last_event(fresh_tenant, "s", leader=leader) == events[-1]
    assert list(await log.read_range(fresh_tenant, "s", None, events[-1])) == events
    end = await log.find_unreadable_end(fresh_tenant, "s")
    assert end is not None
    assert (end.sequence, end.position) == (length, stored[0].seq)
    with pytest.raises(UnreadableEnd) as refused:
        await log.append_batch(build_batch(fresh_tenant, "s", events[-1].head, "on"))
    assert refused.value.position == stored[0].seq
    async with aclosing(log.watch_session(fresh_tenant, "s")) as watched:
        assert await take_items(watched, length) == events
        with pytest.raises(Corrupt):
            await anext(watched)
    (fine,) = await append_texts(log, fresh_tenant, "other", "two")
    assert await log.read_last_event(fresh_tenant, "other") == fine
    assert await log.find_unreadable_end(fresh_tenant, "other") is None


async def test_live_watch_ends_when_a_forged_event_arrives(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    events = await append_one_by_one(jetstream.log, fresh_tenant, "s", 2)
    async with aclosing(jetstream.log.watch_session(fresh_tenant, "s")) as watched:
        assert await take_items(watched, 2) == events
        js = jetstream.connection.nc.jetstream()
        await js.publish(f"session.{fresh_tenant}.s.turn", events[0].stored)
        with pytest.raises(UnreadableEnd):
            await take_items(watched, 1)


async def test_session_of_stray_messages_alone_has_no_events_and_can_be_opened(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    log, js = jetstream.log, jetstream.connection.nc.jetstream()
    await js.publish(f"session.{fresh_tenant}.s.session", b"junk")
    assert await log.read_last_event(fresh_tenant, "s", leader=True) is None
    (opened,) = await append_texts(log, fresh_tenant, "s", "one")
    assert await log.read_last_event(fresh_tenant, "s", leader=True) == opened


async def test_append_on_an_older_state_is_a_conflict_even_before_a_stray_message(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    log = jetstream.log
    events = await append_one_by_one(log, fresh_tenant, "s", 3)
    await jetstream.connection.nc.jetstream().publish(f"session.{fresh_tenant}.s.turn", b"junk")
    outcome = await log.append_batch(build_batch(fresh_tenant, "s", events[0].head, "late"))
    assert getattr(outcome, "actual", None) == 3


async def test_event_that_continues_other_bytes_is_passed_over(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    events = await append_one_by_one(jetstream.log, fresh_tenant, "s", 4)
    altered = replace(events[-1].head, hash=compute_digest("what it said before"))
    batch = build_batch(fresh_tenant, "s", altered, "on")
    js = jetstream.connection.nc.jetstream()
    await js.publish(batch.messages[0].subject, batch.messages[0].payload)
    assert await jetstream.log.read_last_event(fresh_tenant, "s") == events[-1]
