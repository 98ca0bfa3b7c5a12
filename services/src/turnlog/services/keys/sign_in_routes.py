"""Routes by which a browser signs in and out: its key is in a cookie that no script can read.

The cookie goes with requests of the gateway's own page only (`SameSite=Strict`), and commands of
other pages are refused besides. It ends with the browser; a key that is revoked ends it at once.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.installation.key_payloads import PrincipalView, SignInRequest
from turnlog.services.http.authentication import OpenRequests
from turnlog.services.identity.authenticator import KEY_COOKIE
from turnlog.services.keys.key_use_cases import create_principal_view

router = APIRouter()


@router.post(api_paths.SIGN_IN, summary="Sign a browser in")
async def sign_in(request: Request, form: SignInRequest, response: Response) -> PrincipalView:
    """Check a key, and keep it in a cookie of the browser."""
    open_requests: OpenRequests = request.app.state.open_requests
    principal = await open_requests.authenticator.check_credential(form.key)
    encrypted = _is_encrypted(request)
    response.set_cookie(KEY_COOKIE, form.key, secure=encrypted, httponly=True, samesite="strict")
    response.headers["Cache-Control"] = "no-store"
    return create_principal_view(principal)


@router.delete(api_paths.SIGN_IN, status_code=204, summary="Sign a browser out")
async def sign_out(response: Response) -> None:
    """Take the cookie away."""
    response.delete_cookie(KEY_COOKIE, httponly=True, samesite="strict")


def _is_encrypted(request: Request) -> bool:
    """Return whether the page came over TLS, which a proxy may end: only its origin says so."""
    return request.headers.get("origin", "").startswith("https:")
