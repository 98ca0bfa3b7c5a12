"""Reads that went to a replica whose host has vanished are answered by another server."""

from __future__ import annotations

import pytest

from tests.events.log_sessions import append_texts
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream import direct_get
from turnlog.events.jetstream.direct_get import DIRECT_GET_SUBJECT
from turnlog.events.jetstream.jetstream_client import JetStreamClient

QUICK = 0.2
"""Seconds that an answer is waited for in these tests."""


def silence_reads(jetstream: JetStreamClient, period: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence every `period`th read, and shorten what is waited for it."""
    monkeypatch.setattr(direct_get, "DIRECT_SECONDS", QUICK)
    monkeypatch.setattr(direct_get, "BATCH_TRIES", (QUICK, QUICK, QUICK))
    nc, reads = jetstream.connection.nc, list[str]()
    publish = nc.publish

    async def publish_some(
        subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        if subject.startswith(DIRECT_GET_SUBJECT):
            reads.append(subject)
            if len(reads) % period == 0:
                return
        await publish(subject, payload, reply, headers)

    monkeypatch.setattr(nc, "publish", publish_some)


@pytest.mark.parametrize("period", [1, 2, 3])
async def test_every_read_is_answered_despite_a_silent_replica(
    jetstream: JetStreamClient, fresh_tenant: str, period: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = await append_texts(jetstream.log, fresh_tenant, "s", *["text"] * 12)
    silence_reads(jetstream, period, monkeypatch)
    log = jetstream.log
    places = [event.stream_sequence for event in events]
    assert await log.read_last_event(fresh_tenant, "s") == events[-1]
    assert [*await log.read_events_at(fresh_tenant, places[:1])] == [*events[:1]]
    assert [*await log.read_events_at(fresh_tenant, places)] == [*events]
    if period > 1:
        assert [*await log.read_range(fresh_tenant, "s", None, events[-1])] == [*events]


async def test_unanswered_batch_read_raises_unavailable(
    jetstream: JetStreamClient, fresh_tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = await append_texts(jetstream.log, fresh_tenant, "s", *["text"] * 12)
    silence_reads(jetstream, 1, monkeypatch)
    with pytest.raises(Unavailable, match="no answer to a batch"):
        await jetstream.log.read_range(fresh_tenant, "s", None, events[-1])


async def test_read_that_no_server_listens_for_is_answered_by_the_leader(
    jetstream: JetStreamClient, fresh_tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = await append_texts(jetstream.log, fresh_tenant, "s", *["text"] * 2)
    # A subject without a subscription: the server answers at once that there is no responder.
    monkeypatch.setattr(direct_get, "DIRECT_GET_SUBJECT", f"unserved.{fresh_tenant}")
    assert await jetstream.log.read_last_event(fresh_tenant, "s") == events[-1]
