"""A delayed append that arrives while its writer looks for it is no conflict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nats.aio.msg import Msg

from tests.events.sessions import add, batch_of
from turnlog.events.log.outcomes import AlreadyThere
from turnlog.events.nats.connection import Connection, Silent
from turnlog.events.nats.fetching import LEADER
from turnlog.events.nats.opening import JetStream

Sent = tuple[str, bytes, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Late(Connection):
    """A connection whose first publish arrives only after the leader was asked for the last event."""

    on_its_way: list[Sent] = field(default_factory=list[Sent])
    arrived: list[Sent] = field(default_factory=list[Sent])

    async def request(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Msg:
        plain = Connection(self.nc, self.patience)
        if headers and not self.arrived and not self.on_its_way:
            self.on_its_way.append((subject, payload, headers))
            raise Silent("nats", "no answer yet")
        if self.on_its_way and subject.startswith(LEADER) and b"last_by_subj" in payload:
            self.arrived.append(self.on_its_way.pop())
            await plain.request(*self.arrived[-1])
        return await plain.request(subject, payload, headers)


async def test_what_arrives_between_two_looks_is_already_there(
    jetstream: JetStream, fresh_tenant: str
) -> None:
    (opened,) = await add(jetstream.log, fresh_tenant, "s", "hello")
    late = Late(jetstream.connection.nc, jetstream.connection.patience)
    log = replace(jetstream.log, connection=late)
    outcome = await log.append(batch_of(fresh_tenant, "s", opened.head, "again"))
    assert late.arrived
    assert isinstance(outcome, AlreadyThere), outcome
    last = await jetstream.log.last(fresh_tenant, "s")
    assert last
    assert last.sequence == 2
