"""Routes by which a browser signs in at an issuer and comes back.

Browsers are sent to them, and no client is: they are in no description of the API.
They answer with a redirect, whatever happens, because a person sees what they answer: what went
wrong is in the address of the page, which says it in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import RedirectResponse

from turnlog.contract import api_paths
from turnlog.events.errors import Refused, TurnlogError, Unavailable
from turnlog.services.http.authentication import OpenRequests
from turnlog.services.http.credential_cookie import set_credential_cookie

if TYPE_CHECKING:  # PyJWT is loaded only where an issuer is configured.
    from turnlog.services.identity.issuer_sign_in import IssuerSignIn

router = APIRouter()

PENDING_COOKIE: Final = "turnlog-sign-in"
"""The cookie of a browser that has begun to sign in."""

PENDING_SECONDS: Final = 600
"""Seconds in which a person signs in at the issuer and comes back."""

_HOST_PREFIX: Final = "__Host-"
"""Before the name of a cookie that no other host, and no page without TLS, can have set."""

SignInFailure = Literal["denied", "refused", "unavailable"]


class IssuerAnswer(BaseModel):
    """What an issuer sends a browser back with; most add something of their own."""

    model_config = ConfigDict(frozen=True, extra="allow")

    code: Annotated[str, Field(max_length=4_096)] | None = None
    """What is exchanged for a token."""
    state: Annotated[str, Field(max_length=200)] = ""
    """What the browser was sent there with."""
    error: Annotated[str, Field(max_length=200)] | None = None
    """Why there is no code."""


@router.get(api_paths.SIGN_IN_AT_ISSUER, include_in_schema=False)
async def sign_in_at_issuer(
    request: Request, place: Annotated[str, Query(max_length=1_001)] = ""
) -> RedirectResponse:
    """Send the browser to the issuer; `place` is where in the page it comes back to."""
    sign_in = _require_sign_in(request)
    try:
        address, pending = await sign_in.begin(place)
    except Unavailable:
        return _create_failure("unavailable")
    response = RedirectResponse(address, 303, {"Cache-Control": "no-store"})
    _set_cookie(response, sign_in.terms.page, pending.format_cookie())
    return response


@router.get(api_paths.SIGN_IN_RETURN, include_in_schema=False)
async def return_from_issuer(
    request: Request, answer: Annotated[IssuerAnswer, Query()]
) -> RedirectResponse:
    """Exchange the code that the issuer gave, and keep the token in a cookie of the browser."""
    if answer.code is None:
        return _create_failure("denied" if answer.error == "access_denied" else "refused")
    try:
        return await _finish_sign_in(request, answer.code, answer.state)
    except TurnlogError as problem:
        return _create_failure("unavailable" if isinstance(problem, Unavailable) else "refused")


async def _finish_sign_in(request: Request, code: str, state: str) -> RedirectResponse:
    from turnlog.services.identity.issuer_sign_in import (  # noqa: PLC0415 - PyJWT, for the few
        parse_pending,
    )

    sign_in = _require_sign_in(request)
    page = sign_in.terms.page
    pending = parse_pending(request.cookies.get(_name_cookie(page)))
    signed_in = await sign_in.finish(pending, state, code)
    response = RedirectResponse(f"/{pending.place}", 303, {"Cache-Control": "no-store"})
    _set_cookie(response, page, "", seconds=0)
    set_credential_cookie(response, signed_in.token, is_encrypted=_is_encrypted(page))
    return response


def _set_cookie(
    response: RedirectResponse, page: str, value: str, seconds: int = PENDING_SECONDS
) -> None:
    """Set the cookie of a sign-in, which goes along when the issuer sends the browser back."""
    response.set_cookie(
        _name_cookie(page),
        value,
        max_age=seconds,
        secure=_is_encrypted(page),
        httponly=True,
        samesite="lax",
    )


def _name_cookie(page: str) -> str:
    return f"{_HOST_PREFIX}{PENDING_COOKIE}" if _is_encrypted(page) else PENDING_COOKIE


def _is_encrypted(page: str) -> bool:
    return page.startswith("https:")


def _create_failure(failure: SignInFailure) -> RedirectResponse:
    return RedirectResponse(f"/#sign-in-{failure}", 303, {"Cache-Control": "no-store"})


def _require_sign_in(request: Request) -> IssuerSignIn:
    open_requests: OpenRequests = request.app.state.open_requests
    oidc = open_requests.authenticator.oidc
    if oidc is None or oidc.sign_in is None:
        raise Refused(
            "unknown-route",
            "this service sends nobody to an issuer",
            fix="sign in with a key, or set TURNLOG_OIDC_CLIENT_ID at the gateway",
        )
    return oidc.sign_in
