"""One delivery over HTTP: signed, bounded in time and bytes, and judged by its status alone.

Redirects are not followed and proxies from the environment are not used. Of an answer's body only
so much is read as lets the connection be used again; nothing of it is kept or shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

import httpx

from turnlog.services.extensions.bounded_json_post import MAX_PIECES
from turnlog.services.platform.clock import Clock
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.webhooks.delivery.retry_after import parse_retry_after
from turnlog.services.webhooks.webhook_keys import create_signature
from turnlog.services.webhooks.webhook_targets import find_target_fault

DELIVERY_SECONDS: Final = 10.0
"""Seconds that a receiver has for one delivery, from the connection to the end of its answer."""

MAX_ANSWER_BYTES: Final = 65_536
"""Bytes of an answer that are read; with a longer one the connection is closed."""

MAX_CONNECTIONS: Final = 16
"""Connections that one process has to all receivers of a tenant together."""

MAX_TENANTS: Final = 64
"""Tenants that one process delivers for."""

_OVERLOADED: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""Answers whose `Retry-After` counts."""

_PIECES_IN_A_ROW: Final = 64
"""Pieces of an answer that are read before other tasks run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """What is delivered of one event."""

    id: str
    """The same at each try, so that a receiver knows one that it has."""
    position: int
    """The stream sequence of the event."""
    body: bytes


@dataclass(frozen=True, slots=True)
class DeliveryFault:
    """Why a delivery failed."""

    detail: str
    status: int | None = None
    """The HTTP status of the answer; None without one."""
    retry_after: float | None = None
    """Seconds until the receiver wants another request; None if it does not say."""

    @property
    def is_final(self) -> bool:
        """Whether the receiver wants no deliveries any more (410)."""
        return self.status == HTTPStatus.GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSender:
    """Sends deliveries to receivers."""

    http: httpx.AsyncClient
    clock: Clock
    allowed: Collection[str]
    """The origins that the settings allow."""
    seconds: float = DELIVERY_SECONDS

    async def send(self, url: str, secret: str, message: WebhookMessage) -> DeliveryFault | None:
        """Deliver a message; return why that failed, or None once it was accepted."""
        # The settings may have changed since the webhook was added.
        if fault := find_target_fault(url, self.allowed):
            return DeliveryFault(f"{fault}: see TURNLOG_WEBHOOK_TARGETS")
        try:
            async with asyncio.timeout(self.seconds):
                headers = self._build_headers(secret, message)
                status, retry_after = await self._post(url, headers, message.body)
        except TimeoutError:
            return DeliveryFault(f"no whole answer within {self.seconds:g} seconds")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return DeliveryFault(f"the receiver could not be reached: {type(error).__name__}")
        failed = _find_status_fault(status)
        return replace(failed, retry_after=retry_after) if failed else None

    def _build_headers(self, secret: str, message: WebhookMessage) -> dict[str, str]:
        timestamp = int(self.clock().timestamp())
        return {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "turnlog-webhooks",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": create_signature(secret, message.id, timestamp, message.body),
        }

    async def _post(
        self, url: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, float | None]:
        """Return the status, and for how many seconds a receiver wants to be left alone."""
        async with self.http.stream("POST", url, content=body, headers=headers) as answer:
            read, pieces = 0, 0
            async for piece in answer.aiter_raw():
                read, pieces = read + len(piece), pieces + 1
                if read > MAX_ANSWER_BYTES or pieces > MAX_PIECES:
                    break
                if pieces % _PIECES_IN_A_ROW == 0:
                    await asyncio.sleep(0)
            is_overloaded = answer.status_code in _OVERLOADED
            header = answer.headers.get("retry-after", "") if is_overloaded else ""
            return answer.status_code, parse_retry_after(header, self.clock().timestamp())


def _find_status_fault(status: int) -> DeliveryFault | None:
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        detail = f"the receiver answered {status}, and redirects are not followed"
        return DeliveryFault(f"{detail}: give the webhook the address itself", status)
    return DeliveryFault(f"the receiver answered {status}", status)


@asynccontextmanager
async def open_sender(clock: Clock, allowed: Collection[str]) -> AsyncGenerator[WebhookSender]:
    """Return what sends deliveries, with connections of its own."""
    limits = httpx.Limits(max_connections=MAX_CONNECTIONS * MAX_TENANTS)
    # The certificates are read in a thread, since that takes tens of milliseconds.
    tls = await run_in_thread(httpx.create_ssl_context)
    async with httpx.AsyncClient(
        verify=tls, limits=limits, timeout=DELIVERY_SECONDS, trust_env=False, follow_redirects=False
    ) as http:
        yield WebhookSender(http=http, clock=clock, allowed=allowed)
