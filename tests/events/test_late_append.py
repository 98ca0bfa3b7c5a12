"""A delayed append that arrives while its writer looks for it is no conflict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nats.aio.msg import Msg

from tests.events.log_sessions import append_texts, build_batch
from turnlog.events.jetstream.direct_get import LEADER_GET_SUBJECT
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.events.jetstream.nats_connection import NatsConnection, RequestUnanswered
from turnlog.events.store.ports import BatchAlreadyStored, BatchAppended

Sent = tuple[str, bytes, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LateConnection(NatsConnection):
    """What is published first is silently on its way until the leader is asked for the last."""

    on_its_way: list[Sent] = field(default_factory=list[Sent])
    arrived: list[Sent] = field(default_factory=list[Sent])

    async def send_request(
        self,
        subject: str,
        payload: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        patience: float | None = None,
    ) -> Msg:
        plain = NatsConnection(nc=self.nc, patience=self.patience)
        if headers and not self.arrived and not self.on_its_way:
            self.on_its_way.append((subject, payload, headers))
            raise RequestUnanswered("nats", "no answer yet")
        if (
            self.on_its_way
            and subject.startswith(LEADER_GET_SUBJECT)
            and b"last_by_subj" in payload
        ):
            self.arrived.append(self.on_its_way.pop())
            await plain.send_request(*self.arrived[-1])
        return await plain.send_request(subject, payload, headers, patience=patience)


async def test_append_that_arrives_between_two_checks_is_already_stored(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    (opened,) = await append_texts(jetstream.log, fresh_tenant, "s", "hello")
    late = LateConnection(nc=jetstream.connection.nc, patience=jetstream.connection.patience)
    log = replace(jetstream.log, connection=late)
    outcome = await log.append_batch(build_batch(fresh_tenant, "s", opened.head, "again"))
    assert late.arrived
    assert isinstance(outcome, BatchAlreadyStored), outcome
    last = await jetstream.log.read_last_event(fresh_tenant, "s")
    assert last
    assert last.sequence == 2


async def test_append_that_arrives_behind_a_stray_message_is_stored_once(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    (opened,) = await append_texts(jetstream.log, fresh_tenant, "s", "hello")
    await jetstream.connection.nc.jetstream().publish(f"session.{fresh_tenant}.s.turn", b"junk")
    late = LateConnection(nc=jetstream.connection.nc, patience=jetstream.connection.patience)
    log = replace(jetstream.log, connection=late)
    outcome = await log.append_batch(build_batch(fresh_tenant, "s", opened.head, "again"))
    assert late.arrived
    assert isinstance(outcome, BatchAppended), outcome
    last = await jetstream.log.read_last_event(fresh_tenant, "s")
    assert last
    assert list(await log.read_range(fresh_tenant, "s", None, last)) == [opened, last]
    assert await jetstream.log.find_unreadable_end(fresh_tenant, "s") is None
