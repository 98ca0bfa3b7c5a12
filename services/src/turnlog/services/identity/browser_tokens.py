"""Tokens that let a browser at one session for some minutes; signed, and stored nowhere.

An application that has a key makes one for a page of its own, so that the key never reaches a
browser. A token reaches one session of one tenant: it reads, or reads and submits. Who made it
stands in it, so that it ends with the key that it was made by.
"""

from __future__ import annotations

import hmac
import json
import math
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from turnlog.contract.value_names import SignIn
from turnlog.events.errors import Refused
from turnlog.events.seals.person_names import USER_ACTOR_PREFIX
from turnlog.services.identity.derived_keys import derive_key
from turnlog.services.identity.principals import Principal

BROWSER_TOKEN_PREFIX: Final = "tlb_"  # noqa: S105 - the prefix of every one

MAX_BROWSER_SECONDS: Final = 3_600
"""Longest life of a token."""

MAX_BROWSER_TOKEN_SIZE: Final = 2_048
"""Characters of a token; a longer one is refused before it is read."""

_PURPOSE: Final = "browser tokens"

_FORM: Final = re.compile(rf"{BROWSER_TOKEN_PREFIX}([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserTokenRequest:
    """What a token is to be for."""

    session: str
    may_submit: bool = False
    """Whether it submits turns too, and answers what they ask; if not, it reads only."""
    user: str | None = None
    """The user before the browser; that of the principal, if it has one."""
    seconds: float = 600


class _Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tenant: str
    session: str
    submit: bool
    actor: str
    user: str | None
    sign_in: SignIn
    key: str | None
    expires: int


class BrowserTokens:
    """Makes and verifies the tokens of an installation."""

    def __init__(self, root_key: SecretStr, *, now: Callable[[], float] = time.time) -> None:
        self._key = derive_key(root_key, _PURPOSE)
        self._now = now

    def create_token(self, maker: Principal, request: BrowserTokenRequest) -> tuple[str, int]:
        """Return a token with its expiry, in seconds since 1970.

        Raises `Refused` for what the maker cannot give away.
        """
        if maker.session is not None:
            detail = "a token of a browser makes no others"
            raise Refused("invalid-credentials", detail, field="Authorization", fix="use a key")
        if not 1 <= request.seconds <= MAX_BROWSER_SECONDS:
            fix = f"give 1 to {MAX_BROWSER_SECONDS} seconds"
            raise Refused("invalid", "a token lives for some minutes", field="seconds", fix=fix)
        if maker.user is not None and request.user not in {None, maker.user}:
            detail = "whoever signs in as a user makes tokens for that user only"
            raise Refused("user-not-trusted", detail, field="user", fix="leave the field out")
        user = maker.user or request.user
        latest = math.inf if maker.expires is None else maker.expires
        expires = int(min(self._now() + request.seconds, latest))
        payload = _Payload(
            tenant=maker.tenant,
            session=request.session,
            submit=request.may_submit,
            actor=f"{USER_ACTOR_PREFIX}{user}" if user is not None else maker.actor,
            user=user,
            sign_in=maker.sign_in,
            key=maker.key_id,
            expires=expires,
        )
        written = json.dumps(payload.model_dump(), separators=(",", ":")).encode()
        encoded = urlsafe_b64encode(written).rstrip(b"=").decode()
        token = f"{BROWSER_TOKEN_PREFIX}{encoded}.{self.compute_mac(encoded)}"
        if len(token) > MAX_BROWSER_TOKEN_SIZE:
            raise Refused("invalid", "the token would be too long", field="user", fix="shorten it")
        return token, expires

    def verify_token(self, token: str) -> Principal:
        """Return whom a token signs in; raises `Refused` `invalid-credentials`.

        Whether the key that made it counts still, the caller finds out: its id is `key_id`.
        """
        found = _FORM.fullmatch(token) if len(token) <= MAX_BROWSER_TOKEN_SIZE else None
        if found is None or not hmac.compare_digest(self.compute_mac(found[1]), found[2]):
            raise _create_refusal("the token is not one of this installation")
        try:
            written = urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4))
            payload = _Payload.model_validate_json(written)
        except (ValidationError, ValueError):
            raise _create_refusal("the token is one of another release") from None
        if payload.expires <= self._now():
            raise _create_refusal("the token is expired")
        return Principal(
            tenant=payload.tenant,
            actor=payload.actor,
            roles=frozenset({"caller"}),
            sign_in="browser-token",
            user=payload.user,
            key_id=payload.key,
            session=payload.session,
            is_read_only=not payload.submit,
            expires=payload.expires,
        )

    def compute_mac(self, encoded: str) -> str:
        """Return the signature of an encoded payload."""
        mac = hmac.digest(self._key, encoded.encode(), "sha256")
        return urlsafe_b64encode(mac).rstrip(b"=").decode()


def _create_refusal(detail: str) -> Refused:
    fix = "have the application that made it make another one"
    return Refused("invalid-credentials", detail, field="Authorization", fix=fix)
