"""What a gateway's application works with, attached to it when it is built.

Routes take only the use cases that they call: each module of routes has a dependency that returns
them from `app.state.use_cases`.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from turnlog.services.http.authentication import OpenRequests
from turnlog.services.identity.authenticator import Authenticator
from turnlog.services.identity.oidc_setup import OidcAccess
from turnlog.services.identity.rate_limits import RateLimits, RequestRates
from turnlog.services.platform.process_settings import GatewaySettings
from turnlog.services.platform.telemetry.traces import Tracing
from turnlog.services.use_cases.use_case_composition import (
    UseCaseParts,
    UseCases,
    build_use_cases,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayDependencies:
    """What serves all requests of a gateway."""

    settings: GatewaySettings
    use_cases: UseCases
    tracing: Tracing
    open_requests: OpenRequests
    """Who may send requests, and which are being answered."""
    shutdown_event: asyncio.Event
    """Set when the gateway shuts down, so that waiting requests are answered at once."""


def build_dependencies(
    settings: GatewaySettings,
    parts: UseCaseParts,
    tracing: Tracing,
    oidc: OidcAccess | None = None,
) -> GatewayDependencies:
    """Return what a gateway works with, its use cases built from these parts."""
    return GatewayDependencies(
        settings=settings,
        use_cases=build_use_cases(parts),
        tracing=tracing,
        open_requests=OpenRequests(
            Authenticator(
                settings=settings,
                keys=parts.access_keys,
                browser_tokens=parts.browser_tokens,
                oidc=oidc,
            ),
            _create_limits(settings),
            parts.tenants,
        ),
        shutdown_event=parts.shutdown_event,
    )


def _create_limits(settings: GatewaySettings) -> RateLimits:
    def create_rates(rate: float | None) -> RequestRates | None:
        return None if rate is None else RequestRates(rate, time.monotonic)

    return RateLimits(
        keys=create_rates(settings.key_rate),
        tenants=create_rates(settings.tenant_rate),
        streams=settings.key_streams,
        key_bytes=settings.key_bytes,
        tenant_bytes=settings.tenant_bytes,
    )
