"""Messages that a stranger published under a session's subjects, and that are no events of it."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import replace

import pytest

from tests.events.log_sessions import append_one_by_one, append_texts, build_batch, take_items
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, UnreadableEnd
from turnlog.events.jetstream.jetstream_client import JetStreamClient


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


NAMES = (
    "not JSON",
    "empty",
    "no envelope",
    "a number",
    "another version of the envelope",
    "an unknown event without a link",
    "an event of another session",
    "an event of another tenant",
    "the last event once more",
    "the first event once more",
    "huge",
    "deep",
)


@pytest.mark.parametrize("length", [1, 12])
@pytest.mark.parametrize("name", NAMES)
async def test_readers_get_the_events_before_a_foreign_message_and_appends_are_refused(
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


async def test_live_watch_ends_when_a_foreign_message_arrives(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    events = await append_one_by_one(jetstream.log, fresh_tenant, "s", 2)
    async with aclosing(jetstream.log.watch_session(fresh_tenant, "s")) as watched:
        assert await take_items(watched, 2) == events
        js = jetstream.connection.nc.jetstream()
        await js.publish(f"session.{fresh_tenant}.s.turn", b"junk")
        with pytest.raises(UnreadableEnd):
            await take_items(watched, 1)


async def test_session_of_foreign_messages_alone_has_no_events_and_takes_none(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    js = jetstream.connection.nc.jetstream()
    await js.publish(f"session.{fresh_tenant}.s.session", b"junk")
    assert await jetstream.log.read_last_event(fresh_tenant, "s", leader=True) is None
    with pytest.raises(UnreadableEnd) as refused:
        await append_texts(jetstream.log, fresh_tenant, "s", "one")
    assert refused.value.sequence == 0


async def test_append_on_an_older_state_is_a_conflict_even_before_a_foreign_message(
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
