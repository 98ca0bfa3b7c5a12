"""The cookie by which a browser is signed in: no script reads it, and no other page sends it."""

from __future__ import annotations

from fastapi import Response

from turnlog.services.identity.authenticator import KEY_COOKIE


def set_credential_cookie(response: Response, credential: str, *, is_encrypted: bool) -> None:
    """Have a browser keep a key or a token until it ends; `is_encrypted` is for TLS alone."""
    response.set_cookie(
        KEY_COOKIE, credential, secure=is_encrypted, httponly=True, samesite="strict"
    )


def delete_credential_cookie(response: Response) -> None:
    """Take it away."""
    response.delete_cookie(KEY_COOKIE, httponly=True, samesite="strict")
