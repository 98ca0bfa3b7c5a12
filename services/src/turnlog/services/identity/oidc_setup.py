"""The verifier of OpenID Connect tokens that the settings of a gateway describe.

PyJWT, httpx and what they import are loaded only where an issuer is configured.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from turnlog.contract.value_names import RoleName
from turnlog.events.errors import Refused
from turnlog.services.identity.principals import ALL_ROLES
from turnlog.services.platform.process_settings import GatewaySettings

if TYPE_CHECKING:
    from turnlog.services.identity.oidc_tokens import OidcVerifier


RolesByName = Mapping[str, tuple[RoleName, ...]]


@asynccontextmanager
async def open_oidc_verifier(settings: GatewaySettings) -> AsyncGenerator[OidcVerifier | None]:
    """Open the verifier, or give None where no issuer is configured.

    Raises `Refused` where a setting lacks.
    """
    if settings.oidc_issuer is None:
        yield None
        return
    if settings.oidc_audience is None:
        detail = "an issuer makes tokens for many services, and none of them is named"
        fix = "set TURNLOG_OIDC_AUDIENCE to the name that the issuer knows this service by"
        raise Refused("bad-setting", detail, field="TURNLOG_OIDC_AUDIENCE", fix=fix)
    import httpx  # noqa: PLC0415 - a fortieth of a second, for the few who sign in so

    from turnlog.services.identity.issuer_keys import (  # noqa: PLC0415 - as above
        FETCH_SECONDS,
        IssuerKeys,
    )
    from turnlog.services.identity.oidc_tokens import (  # noqa: PLC0415 - as above
        OidcTerms,
        OidcVerifier,
    )

    terms = OidcTerms(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        tenant=settings.tenant,
        tenant_claim=settings.oidc_tenant_claim,
        roles_claim=settings.oidc_roles_claim,
        user_claim=settings.oidc_user_claim,
        roles=map_role_names(settings.oidc_roles),
    )
    # Proxies and certificates of the environment count: an issuer may have a company's own.
    async with httpx.AsyncClient(timeout=FETCH_SECONDS) as http:
        verifier = OidcVerifier(terms, IssuerKeys(settings.oidc_issuer, http))
        try:
            yield verifier
        finally:
            await verifier.close()


def map_role_names(
    mapping: Mapping[str, tuple[RoleName, ...]],
) -> Mapping[str, tuple[RoleName, ...]]:
    """Return our roles by the issuer's names: our own names where no mapping is set."""
    return mapping or {role: (role,) for role in ALL_ROLES}
