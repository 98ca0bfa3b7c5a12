"""The settings of a gateway and the tenant of a request, as dependencies of routes.

The tenant is never read from a header: until requests carry credentials it is the configured one.
Only this module knows that.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from turnlog.services.platform.process_settings import GatewaySettings


async def get_settings(request: Request) -> GatewaySettings:
    """Return the settings of the gateway that a request came to."""
    settings: GatewaySettings = request.app.state.settings
    return settings


RequestSettings = Annotated[GatewaySettings, Depends(get_settings)]


async def get_tenant(settings: RequestSettings) -> str:
    """Return the tenant of a request."""
    return settings.tenant


RequestTenant = Annotated[str, Depends(get_tenant)]
