"""A worker hears on NATS that a session was opened, and asks its tool servers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from tests.agent_programs.agent_harness import AgentHarness, FakeToolServer
from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.session_events import SessionClosed
from turnlog.events.registry import KnownEvent
from turnlog.projections.blueprint.schema.tool_specs import ServerSpec
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.worker.early_listings import run_early_listings

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]


@dataclass(kw_only=True)
class AskedServer(FakeToolServer):
    """A tool server that says when it is asked."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def list_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        """See `ToolServers.list_offers`."""
        self.asked.set()
        return await super().list_offers(server, spec)


def build_draft(event: KnownEvent) -> EventDraft:
    return EventDraft(
        event=event,
        id=str(uuid4()),
        at=AgentHarness().house.sessions.clock(),
        source="/turnlog/testing",
        actor="tester",
        command=None,
    )


async def test_opening_on_nats_has_the_servers_asked_and_unreadable_messages_do_not(
    nats_url: str,
) -> None:
    harness = await AgentHarness(AskedServer()).open_session()
    (opened,) = harness.house.list_events()
    worker = harness.house.build_worker("w1")
    assert isinstance(opened.event, KnownEvent)
    async with (
        open_client(nats_url, StreamOptions()) as client,
        run_early_listings(client.connection, opened.tenant, worker),
    ):
        subject = f"live.session.{opened.tenant}.s.session"
        await client.connection.nc.publish(subject, b"{", headers={"Nats-Sequence": "1"})
        await client.connection.nc.publish(subject, b"{")
        closed = encode_batch(
            opened.tenant, "s0", None, [build_draft(SessionClosed(reason="over"))]
        )
        await client.log.append_batch(closed)
        assert isinstance(harness.shop, AskedServer)
        assert not harness.shop.asked.is_set()
        batch = encode_batch(opened.tenant, "s1", None, [build_draft(opened.event)])
        await client.log.append_batch(batch)
        await harness.shop.asked.wait()
    await worker.tool_snapshots.close()
