"""Which process delivers a webhook: a lease whose claim number is its fencing token.

A claim is an event of the webhook's place, so one of several that claim at once gets it. Whoever
has it gives signs of life in the stream of tokens, as the worker of an attempt does, and sends only
while the last confirmed one is young enough for the request to end before another process may
claim. Silence is measured by the server's clock. A lease that lapsed is lost, whatever comes later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.model.webhook_events import WebhookPlace
from turnlog.events.store.ports import TokenStream
from turnlog.events.subjects import LEASE_TENANT
from turnlog.events.tokens import AttemptAbandoned, AttemptAlive
from turnlog.services.webhooks.delivery.webhook_sender import DELIVERY_SECONDS

LEASE_SECONDS: Final = 30.0
"""Seconds of silence after which another process may claim."""

_CALL: Final = "webhook"


class ClaimLost(Exception):
    """Another process delivers, or may from now on."""


@dataclass(kw_only=True)
class WebhookLease:
    """The lease of one webhook, as one process claims and keeps it."""

    tokens: TokenStream
    webhook_id: str
    seconds: float = LEASE_SECONDS
    sending: float = DELIVERY_SECONDS
    """Seconds that one delivery takes at most."""
    monotonic: Callable[[], float] = time.monotonic
    claim: int = 0
    is_lost: bool = False
    _confirmed_at: float | None = None
    _unseen_since: float | None = field(default=None)

    async def is_free(self, place: WebhookPlace | None) -> bool:
        """Return whether nobody holds the claim of a place, which was read before."""
        if place is None or place.claim == 0:
            return True
        latest = await self.tokens.read_latest_event(LEASE_TENANT, self.webhook_id, 0)
        if latest is None:
            # The stream is in memory: a server that was restarted has forgotten who is alive.
            now = self.monotonic()
            self._unseen_since = now if self._unseen_since is None else self._unseen_since
            return now - self._unseen_since >= self.seconds
        self._unseen_since = None
        released = AttemptAbandoned(call=_CALL, attempt=place.claim)
        if latest.event == released:
            return True
        silence = await self.tokens.measure_silence(LEASE_TENANT, self.webhook_id, 0)
        return silence is not None and silence >= self.seconds

    async def start_claim(self, claim: int) -> bool:
        """Give the first sign of life, before the claim; return whether it was stored."""
        self.claim, self.is_lost = claim, False
        return await self.confirm()

    async def confirm(self) -> bool:
        """Give a sign of life; return whether it was stored."""
        at = self.monotonic()
        alive = AttemptAlive(call=_CALL, attempt=self.claim)
        stored = await self.tokens.publish_and_confirm(LEASE_TENANT, self.webhook_id, 0, alive)
        if stored:
            self._confirmed_at = at
        return stored

    async def keep(self) -> None:
        """Give signs of life until the lease lapses; raises `ClaimLost` then."""
        while True:
            await asyncio.sleep(self.seconds / 10)
            await self.confirm()
            self.require_held()

    def require_held(self) -> None:
        """Raise `ClaimLost` unless a delivery that begins now ends within the lease."""
        until = (self._confirmed_at or 0) + self.seconds
        if self.is_lost or self.monotonic() >= until:
            self.is_lost = True
            raise ClaimLost

    def can_send(self) -> bool:
        """Return whether a delivery that begins now ends within the lease."""
        until = (self._confirmed_at or 0) + self.seconds
        return not self.is_lost and self.monotonic() + self.sending < until

    async def release(self) -> None:
        """Let another process claim at once."""
        if not self.is_lost:
            self.is_lost = True
            gone = AttemptAbandoned(call=_CALL, attempt=self.claim)
            await self.tokens.publish_and_confirm(LEASE_TENANT, self.webhook_id, 0, gone)
