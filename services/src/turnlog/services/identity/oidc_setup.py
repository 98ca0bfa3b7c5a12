"""What the settings of a gateway say of an issuer: its tokens, and how browsers sign in there.

PyJWT, httpx and what they import are loaded only where an issuer is configured.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnlog.contract.value_names import RoleName
from turnlog.events.errors import Refused
from turnlog.services.identity.principals import ALL_ROLES
from turnlog.services.platform.process_settings import GatewaySettings

if TYPE_CHECKING:
    from turnlog.services.identity.issuer_sign_in import IssuerSignIn, SignInTerms
    from turnlog.services.identity.oidc_tokens import OidcTerms, OidcVerifier


RolesByName = Mapping[str, tuple[RoleName, ...]]


@dataclass(frozen=True, slots=True)
class OidcAccess:
    """The ways in by one issuer."""

    verifier: OidcVerifier
    sign_in: IssuerSignIn | None
    """How browsers sign in; None where the issuer does not know the page."""


@asynccontextmanager
async def open_oidc_access(settings: GatewaySettings) -> AsyncGenerator[OidcAccess | None]:
    """Open what an issuer's tokens need, or give None where no issuer is configured.

    Raises `Refused` where a setting lacks.
    """
    if settings.oidc_issuer is None:
        _refuse_page_without_issuer(settings)
        yield None
        return
    if settings.oidc_audience is None:
        detail = "an issuer makes tokens for many services, and none of them is named"
        fix = "set TURNLOG_OIDC_AUDIENCE to the name that the issuer knows this service by"
        raise Refused("bad-setting", detail, field="TURNLOG_OIDC_AUDIENCE", fix=fix)
    import httpx  # noqa: PLC0415 - a fortieth of a second, for the few who sign in so

    from turnlog.services.identity.issuer_documents import FETCH_SECONDS  # noqa: PLC0415
    from turnlog.services.identity.issuer_keys import IssuerKeys  # noqa: PLC0415 - as above
    from turnlog.services.identity.issuer_sign_in import IssuerSignIn  # noqa: PLC0415
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
        page = _create_sign_in_terms(settings, terms)
        sign_in = IssuerSignIn(terms=page, http=http, verifier=verifier) if page else None
        try:
            yield OidcAccess(verifier, sign_in)
        finally:
            await verifier.close()


def map_role_names(
    mapping: Mapping[str, tuple[RoleName, ...]],
) -> Mapping[str, tuple[RoleName, ...]]:
    """Return our roles by the issuer's names: our own names where no mapping is set."""
    return mapping or {role: (role,) for role in ALL_ROLES}


def _refuse_page_without_issuer(settings: GatewaySettings) -> None:
    if settings.oidc_client_id is not None:
        detail = "there is no issuer to sign in at"
        fix = "set TURNLOG_OIDC_ISSUER too, or leave this out"
        raise Refused("bad-setting", detail, field="TURNLOG_OIDC_CLIENT_ID", fix=fix)


def _create_sign_in_terms(settings: GatewaySettings, terms: OidcTerms) -> SignInTerms | None:
    from turnlog.services.identity.issuer_sign_in import SignInTerms  # noqa: PLC0415

    if settings.oidc_client_id is None:
        return None
    if settings.oidc_page is None:
        detail = "the issuer must send browsers back to the page, and its address is not known"
        fix = "set TURNLOG_OIDC_PAGE, and register its /v1/sign-in/return at the issuer"
        raise Refused("bad-setting", detail, field="TURNLOG_OIDC_PAGE", fix=fix)
    return SignInTerms(
        issuer=terms.issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        audience=terms.audience,
        scope=settings.oidc_scope,
        page=settings.oidc_page,
    )
