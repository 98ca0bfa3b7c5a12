"""One deliverer for each tenant that has webhooks, in every process that delivers.

Tenants share a process and nothing else: each deliverer reads, waits and fails by itself, and has
connections of its own, so receivers of one tenant that do not answer hold up no other tenant.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.errors import TurnlogError
from turnlog.events.model.webhook_events import WEBHOOK_FAMILY
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.webhooks.delivery.webhook_deliverer import WebhookDeliverer
from turnlog.services.webhooks.delivery.webhook_sender import MAX_TENANTS

FIND_SECONDS: Final = 5.0
"""Seconds between two looks for tenants."""

_log = structlog.get_logger("turnlog.webhooks")


@dataclass(kw_only=True)
class TenantDeliverers:
    """Finds the tenants, and runs their deliverers."""

    own_tenant: str
    """That of the process; it is always among those that are delivered."""
    find_tenants: Callable[[str], Awaitable[Sequence[str]]]
    """Finds the tenants that have a history of this id in their library."""
    create: Callable[[str], WebhookDeliverer]
    """Creates the deliverer of a tenant."""
    max_tenants: int = MAX_TENANTS
    find_seconds: float = FIND_SECONDS
    _deliverers: dict[str, WebhookDeliverer] = field(default_factory=dict[str, WebhookDeliverer])
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    _left_out: frozenset[str] = frozenset()
    """The tenants beyond the most, of which the log was told."""
    _is_ending: bool = False

    async def run(self) -> None:
        """Deliver until cancelled, or until a deliverer ends, which none should."""
        self._start(self.own_tenant)
        try:
            while True:
                try:
                    await self._start_found()
                except TurnlogError as error:
                    _log.warning("webhook-tenants-unreadable", detail=str(error))
                done, _ = await asyncio.wait(
                    self._tasks.values(),
                    timeout=self.find_seconds,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    task.result()
        finally:
            await cancel_tasks(*self._tasks.values())

    def list_tenants(self) -> list[str]:
        """Return the tenants that this process delivers for."""
        return [*self._deliverers]

    async def end(self, seconds: float) -> None:
        """End all deliveries in good order, within so many seconds, and begin none any more."""
        self._is_ending = True
        await asyncio.gather(*(each.end(seconds) for each in self._deliverers.values()))

    async def _start_found(self) -> None:
        found = await self.find_tenants(WEBHOOK_FAMILY)
        if self._is_ending:
            return
        left_out: set[str] = set()
        for tenant in found:
            if tenant in self._deliverers:
                continue
            if len(self._deliverers) < self.max_tenants:
                self._start(tenant)
            else:
                left_out.add(tenant)
        if left_out - self._left_out:
            _log.error("webhook-tenants-left-out", most=self.max_tenants, count=len(left_out))
        self._left_out = frozenset(left_out)

    def _start(self, tenant: str) -> None:
        deliverer = self.create(tenant)
        self._deliverers[tenant] = deliverer
        self._tasks[tenant] = asyncio.create_task(deliverer.run())


@asynccontextmanager
async def run_deliverers(
    deliverers: TenantDeliverers, ending: Shutdown, grace: float
) -> AsyncGenerator[None]:
    """Deliver while the body runs; then let what is under way end, within the grace time."""
    async with ending.run_part("webhooks", deliverers.run()):
        try:
            yield
        finally:
            await deliverers.end(grace)
