"""Routes by which a browser signs in and out: its key is in a cookie that no script can read.

The cookie goes with requests of the gateway's own page only (`SameSite=Strict`), and commands of
other pages are refused besides. It ends with the browser; a key that is revoked ends it at once.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.installation.key_payloads import PrincipalView, SignInRequest, SignInWays
from turnlog.services.http.authentication import OpenRequests
from turnlog.services.http.credential_cookie import (
    delete_credential_cookie,
    set_credential_cookie,
)
from turnlog.services.keys.key_use_cases import create_principal_view

router = APIRouter()


@router.get(api_paths.SIGN_IN, summary="List the ways to sign a browser in")
async def list_sign_in_ways(request: Request) -> SignInWays:
    """Return how a browser may sign in, for a page that nobody has signed in to yet."""
    open_requests: OpenRequests = request.app.state.open_requests
    authenticator = open_requests.authenticator
    at_issuer = authenticator.oidc.sign_in if authenticator.oidc else None
    return SignInWays(
        key=authenticator.settings.root_key is not None,
        issuer=None if at_issuer is None else at_issuer.terms.issuer,
    )


@router.post(api_paths.SIGN_IN, summary="Sign a browser in")
async def sign_in(request: Request, form: SignInRequest, response: Response) -> PrincipalView:
    """Check a key, and keep it in a cookie of the browser."""
    open_requests: OpenRequests = request.app.state.open_requests
    principal = await open_requests.authenticator.check_credential(form.key)
    set_credential_cookie(response, form.key, is_encrypted=_is_encrypted(request))
    response.headers["Cache-Control"] = "no-store"
    return create_principal_view(principal)


@router.delete(api_paths.SIGN_IN, status_code=204, summary="Sign a browser out")
async def sign_out(response: Response) -> None:
    """Take the cookie away."""
    delete_credential_cookie(response)


def _is_encrypted(request: Request) -> bool:
    """Return whether the page came over TLS, which a proxy may end: only its origin says so."""
    return request.headers.get("origin", "").startswith("https:")
