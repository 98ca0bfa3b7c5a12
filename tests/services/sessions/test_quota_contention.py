"""Many gateways at one quota exceed it by what the last allowed turn reserved, and no more."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final

import pytest
import pytest_asyncio

from tests.support.sessions.session_harness import (
    TESTER,
    EmptyCommandIndex,
    build_small_blueprint,
)
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.quota_events import QuotaEdited, QuotaLimits
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.quotas.quota_decisions import QuotaExceeded
from turnlog.projections.quotas.turn_bound import TurnBound
from turnlog.projections.session.commands import CancelTurn, OpenSession, SubmitTurn
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import CheckedSnapshotStore
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.platform.clock import create_id
from turnlog.services.quotas.quota_reservations import TurnQuotas
from turnlog.services.quotas.quota_service import QuotaService
from turnlog.services.sessions.command_handler import CommandHandler

pytestmark = pytest.mark.slow("many turns reserve of one limit at once")

GATEWAYS: Final = 50

TURNS: Final = 20 if os.environ.get("FAULTS") == "all" else 2
"""Turns that each gateway submits, one after the other."""

BOUND: Final = TurnBound(1_000, 100)

ALLOWED: Final = 17
"""Turns that are allowed."""

LIMIT: Final = (ALLOWED - 1) * BOUND.input_tokens + 1
"""Tokens of which one is left for the last allowed turn."""

NOON: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest_asyncio.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStreamClient]:
    async with open_client(nats_url, StreamOptions()) as client:
        yield client


def build_gateway(client: JetStreamClient, number: int) -> CommandHandler:
    """Make the sessions of one gateway, which shares nothing but the connection."""
    source = f"/test/gateway-{number}"
    parts = LibraryParts(
        log=client.library,
        blobs=client.blobs,
        clock=lambda: NOON,
        create_id=create_id,
        source=source,
    )
    service = QuotaService(parts)
    return CommandHandler(
        log=client.log,
        snapshots=CheckedSnapshotStore(client.log, client.snapshots),
        texts=TextReader(log=client.log, blobs=client.blobs, media=MediaReader(client.media)),
        older_commands=EmptyCommandIndex(),
        clock=lambda: NOON,
        create_id=create_id,
        source=f"/test/gateway-{number}",
        quotas=TurnQuotas(service, client.log),
    )


async def test_fifty_gateways_exceed_a_quota_by_no_more_than_the_last_turn_reserved(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    gateways = [build_gateway(jetstream, number) for number in range(GATEWAYS)]
    quotas = gateways[0].quotas
    assert quotas is not None
    limits = QuotaLimits(input_tokens=LIMIT)
    await quotas.service.edit_limits(fresh_tenant, QuotaEdited(user="ann", limits=limits), TESTER)
    small = build_small_blueprint()
    blueprint = await BlueprintStore(jetstream.blobs).store_blueprint(fresh_tenant, small)
    begun = asyncio.Barrier(GATEWAYS)

    async def submit_turns(number: int, gateway: CommandHandler) -> Counter[str]:
        session, outcomes = f"s-{number}", Counter[str]()
        await gateway.handle(
            fresh_tenant, session, OpenSession(blueprint=blueprint, profile="one", reach=0), TESTER
        )
        await begun.wait()
        for _ in range(TURNS):
            command = SubmitTurn(text="Hi", policies=Policies(), user="ann", bound=BOUND)
            try:
                await gateway.handle(fresh_tenant, session, command, TESTER)
                outcomes["submitted"] += 1
            except QuotaExceeded:
                outcomes["refused"] += 1
        return outcomes

    counts = await asyncio.gather(*map(submit_turns, range(GATEWAYS), gateways))
    assert sum(counts, Counter[str]()) == {
        "submitted": ALLOWED,
        "refused": GATEWAYS * TURNS - ALLOWED,
    }
    balance = await quotas.service.load_balance(fresh_tenant, "ann", "2026-11")
    reserved = balance.balance.reservations
    assert len({each.id for each in reserved}) == ALLOWED
    *earlier, last = (each.input_tokens for each in reserved)
    assert sum(earlier) == LIMIT - 1, "something was left for the last one"
    assert sum(earlier) + last == LIMIT + BOUND.input_tokens - 1, "the most that may be exceeded"

    async def cancel_turns(number: int, gateway: CommandHandler) -> None:
        for turn in range(counts[number]["submitted"], 0, -1):
            await gateway.handle(fresh_tenant, f"s-{number}", CancelTurn(turn), TESTER)

    await asyncio.gather(*map(cancel_turns, range(GATEWAYS), gateways))
    after = (await quotas.service.load_balance(fresh_tenant, "ann", "2026-11")).balance
    assert (after.reservations, after.input_tokens, after.day_requests) == ((), 0, ALLOWED)
