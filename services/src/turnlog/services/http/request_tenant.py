"""The settings of a gateway, and the principal of a request with its tenant, for routes.

The tenant is never read from a header or a path: it is that of the principal who sends the request.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from turnlog.services.identity.principals import Principal
from turnlog.services.platform.process_settings import GatewaySettings


async def get_settings(request: Request) -> GatewaySettings:
    """Return the settings of the gateway that a request came to."""
    settings: GatewaySettings = request.app.state.settings
    return settings


RequestSettings = Annotated[GatewaySettings, Depends(get_settings)]


async def get_principal(request: Request) -> Principal:
    """Return who sends a request, as the middleware established it."""
    principal: Principal = request.state.principal
    return principal


RequestPrincipal = Annotated[Principal, Depends(get_principal)]


async def get_tenant(principal: RequestPrincipal) -> str:
    """Return the tenant of a request."""
    return principal.tenant


RequestTenant = Annotated[str, Depends(get_tenant)]
