"""Several deliverers: one at a time delivers a webhook, and another one follows it when it dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.webhooks.webhook_stand import (
    TERMS,
    WebhookStand,
    open_webhook_stand,
)
from tests.support.webhooks.webhook_receiver import GOOD, Answer, Delivery, WebhookReceiver
from turnlog.events.model.webhook_events import WebhookPlace
from turnlog.events.store.memory_log import MemoryTokenStream
from turnlog.events.store.ports import StampedTokenEvent
from turnlog.events.tokens import TokenEvent
from turnlog.services.webhooks.delivery.webhook_lease import ClaimLost, WebhookLease


@pytest_asyncio.fixture
async def hooks(idle: RunningGateway) -> AsyncIterator[WebhookStand]:
    receiver = WebhookReceiver()
    async with receiver.listen(), open_webhook_stand(idle, receiver) as stand:
        yield stand


async def test_two_deliverers_deliver_each_event_once_and_in_order(hooks: WebhookStand) -> None:
    for _ in range(3):
        await hooks.play_session(3)
    await hooks.add_webhook()
    async with (
        hooks.deliver(is_alone=False, name="test-1"),
        hooks.deliver(is_alone=False, name="test-2"),
    ):
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
        for _ in range(3):
            await hooks.play_session(3)
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    for session, positions in hooks.receiver.list_by_session().items():
        assert positions == await hooks.list_positions(session)


async def test_deliverer_that_has_ended_its_deliveries_begins_none_again(
    hooks: WebhookStand,
) -> None:
    await hooks.play_session(1)
    await hooks.add_webhook()
    async with hooks.deliver() as deliverer:
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
        await deliverer.end(30)
        await deliverer.service.wait_for_looks(3)
        assert deliverer.count_running() == 0
    assert (await hooks.list_place_events()).count("webhook-claimed") == 1


async def test_deliverer_that_ends_in_good_order_is_followed_at_once(hooks: WebhookStand) -> None:
    await hooks.play_session(1)
    await hooks.add_webhook()
    async with hooks.deliver(is_alone=False, lease_seconds=1_000):
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    await hooks.play_session(1)
    async with hooks.deliver(is_alone=False, lease_seconds=1_000):
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    for session, positions in hooks.receiver.list_by_session().items():
        assert positions == await hooks.list_positions(session)


async def test_deliverer_whose_claim_was_taken_records_nothing_more(hooks: WebhookStand) -> None:
    await hooks.play_session(2)
    await hooks.add_webhook()
    async with hooks.deliver(is_alone=False, name="old") as old:
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
        # Believing to be alone, it claims although another one lives.
        async with hooks.deliver(is_alone=True, name="new") as new:
            await new.service.wait_for_looks(2)
            (lease,) = old.list_leases()
            session = await hooks.play_session(2)
            async with asyncio.timeout(30):
                while not lease.is_lost:
                    await hooks.gateway.submit_turn(session)
                    await hooks.gateway.http.post(f"/v1/sessions/{session}/cancel")
            await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
            # Before the new one ends, as the old one may then follow it under a third claim.
            claims = [each.place.claim for each in await hooks.list_place_records()]
    assert claims == sorted(claims), "what was written under the old claim came before the new one"
    assert set(claims) == {1, 2}


@pytest.mark.slow("a lease lapses by the clock of the server")
async def test_deliverer_that_is_cut_off_stops_before_another_one_begins(
    hooks: WebhookStand,
) -> None:
    for _ in range(4):
        await hooks.play_session(2)
    held = asyncio.Event()
    first_done = asyncio.Event()

    async def answer(delivery: Delivery) -> Answer:
        del delivery
        if not first_done.is_set() and len(hooks.receiver.tried) > 4:
            held.set()
            await first_done.wait()
        return GOOD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    terms = replace(TERMS, session_seconds=1)
    async with hooks.deliver(terms, is_alone=False, lease_seconds=3, seconds=1, name="old") as old:
        await asyncio.wait_for(held.wait(), 30)
        assert old.sender.under_way
        # Its signs of life are lost, as behind a network that broke; it goes on trying.
        for lease in old.list_leases():
            lease.tokens = SilentTokens()
        async with hooks.deliver(is_alone=False, lease_seconds=3, seconds=1, name="new") as new:
            async with asyncio.timeout(30):
                while not new.list_leases() or not new.list_leases()[0].claim:  # noqa: ASYNC110 - nothing tells
                    await asyncio.sleep(0.01)
            assert all(not lease.can_send() for lease in old.list_leases())
            assert old.sender.under_way == [], "no delivery of the old one is under way"
            first_done.set()
            await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    for session, positions in hooks.receiver.list_by_session().items():
        assert list(dict.fromkeys(positions)) == await hooks.list_positions(session)


class SilentTokens(MemoryTokenStream):
    """A token stream that stores nothing."""

    async def publish_and_confirm(
        self, tenant: str, session: str, turn: int, event: TokenEvent
    ) -> bool:
        del tenant, session, turn, event
        return False


@dataclass
class LeaseClock:
    """A clock of the machine and of the server, which a test moves."""

    seconds: float = 100.0

    def read(self) -> float:
        return self.seconds


@dataclass
class StampedTokens(MemoryTokenStream):
    """Token events with the times of a test's clock."""

    clock: LeaseClock = field(default_factory=LeaseClock)
    latest: tuple[float, TokenEvent] | None = None

    async def publish_and_confirm(
        self, tenant: str, session: str, turn: int, event: TokenEvent
    ) -> bool:
        del tenant, session, turn
        self.latest = (self.clock.seconds, event)
        return True

    async def read_latest_event(
        self, tenant: str, session: str, turn: int
    ) -> StampedTokenEvent | None:
        del tenant, session, turn
        return StampedTokenEvent(self.latest[1], datetime.now(UTC)) if self.latest else None

    async def measure_silence(self, tenant: str, session: str, turn: int) -> float | None:
        del tenant, session, turn
        return self.clock.seconds - self.latest[0] if self.latest else None


def build_lease(tokens: StampedTokens) -> WebhookLease:
    return WebhookLease(tokens=tokens, webhook_id="w", monotonic=tokens.clock.read)


async def test_claim_is_free_after_the_silence_of_its_holder_and_not_before() -> None:
    tokens = StampedTokens()
    holder, other = build_lease(tokens), build_lease(tokens)
    place = WebhookPlace(after=0, claim=1)
    assert await other.is_free(None)
    assert await holder.start_claim(1)
    assert not await other.is_free(place)
    tokens.clock.seconds += 29
    assert not await other.is_free(place)
    tokens.clock.seconds += 1
    assert await other.is_free(place)


async def test_holder_begins_no_delivery_that_could_end_after_its_lease() -> None:
    tokens = StampedTokens()
    holder = build_lease(tokens)
    assert not holder.can_send(), "it has claimed nothing"
    await holder.start_claim(1)
    tokens.clock.seconds += holder.seconds - holder.sending - 0.1
    assert holder.can_send()
    tokens.clock.seconds += 0.2
    assert not holder.can_send()
    holder.require_held()
    tokens.clock.seconds += holder.sending
    with pytest.raises(ClaimLost):
        holder.require_held()
    # A sign of life that comes after all does not bring the lease back.
    await holder.confirm()
    with pytest.raises(ClaimLost):
        holder.require_held()
    assert not holder.can_send()


async def test_released_claim_is_free_at_once_and_only_that_one() -> None:
    tokens = StampedTokens()
    holder, other = build_lease(tokens), build_lease(tokens)
    await holder.start_claim(1)
    await holder.release()
    assert await other.is_free(WebhookPlace(after=0, claim=1))
    assert not await other.is_free(WebhookPlace(after=0, claim=2)), "somebody claimed since"


async def test_server_that_forgot_who_is_alive_is_waited_for() -> None:
    tokens = StampedTokens()
    other, place = build_lease(tokens), WebhookPlace(after=0, claim=1)
    assert not await other.is_free(place)
    tokens.clock.seconds += 29
    assert not await other.is_free(place)
    tokens.clock.seconds += 1
    assert await other.is_free(place)
