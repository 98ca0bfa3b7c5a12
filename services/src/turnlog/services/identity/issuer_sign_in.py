"""A browser signs in at an issuer: the authorization code flow of OpenID Connect, with PKCE.

The browser is sent to the issuer and comes back with a code, which the gateway exchanges for a
token; no script sees either. What the browser must bring back (`state`) and what only the gateway
may send along (the verifier of PKCE) is kept in a cookie of this browser meanwhile, so that nobody
is signed in by a link of somebody else, and a gateway keeps nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import httpx
import structlog
from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr, ValidationError

from turnlog.contract import api_paths
from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.services.identity.issuer_documents import (
    FETCH_SECONDS,
    IssuerFault,
    fetch_discovery,
    fetch_document,
    get_address,
)
from turnlog.services.identity.oidc_tokens import OidcVerifier, create_refusal, read_claims
from turnlog.services.identity.principals import Principal

DISCOVERY_SECONDS: Final = 600.0
"""Age at which the discovery document is fetched again."""

MAX_EXCHANGES: Final = 8
"""Exchanges of codes at a time; whoever sends made-up codes makes the issuer work, and us wait."""

MAX_COOKIE_TOKEN: Final = 4_000
"""Characters of a token that fits into a cookie: browsers keep 4,096 bytes of one."""

_PLACE: Final = re.compile(r"#[!-~]{0,1000}")

_log = structlog.get_logger("turnlog.identity")


AnswerT = TypeVar("AnswerT")


class PendingSignIn(BaseModel):
    """A sign-in that a browser has begun, as its cookie has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: str = Field(min_length=20, max_length=100)
    nonce: str = Field(min_length=20, max_length=100)
    verifier: str = Field(min_length=43, max_length=128)
    place: str = Field(pattern=f"^(?:{_PLACE.pattern})?$")
    """The place in the page that the person came for, from `#` on; or empty."""

    def format_cookie(self) -> str:
        """Return the value of the cookie."""
        return urlsafe_b64encode(self.model_dump_json().encode()).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInTerms:
    """How the issuer knows this service's page."""

    issuer: str
    client_id: str
    client_secret: SecretStr | None
    audience: str
    """What the tokens that sign in are for."""
    scope: str
    page: str
    """The address that people open, without a path."""

    @property
    def callback(self) -> str:
        """Where the issuer sends browsers back to; it must be registered there."""
        return f"{self.page}{api_paths.SIGN_IN_RETURN}"

    @property
    def uses_id_token(self) -> bool:
        """Whether the ID token signs in; it is for the client, and an access token may be not."""
        return self.client_id == self.audience


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Whom the issuer signed in, by which token."""

    token: str
    principal: Principal


@dataclass(kw_only=True)
class IssuerSignIn:
    """Signs browsers in at one issuer; belongs to one event loop."""

    terms: SignInTerms
    http: httpx.AsyncClient
    verifier: OidcVerifier
    monotonic: Callable[[], float] = time.monotonic
    _discovery: tuple[float, Mapping[str, JsonValue]] | None = None
    _fetching: asyncio.Lock = field(default_factory=asyncio.Lock)
    _exchanges: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_EXCHANGES))

    async def begin(self, place: str) -> tuple[str, PendingSignIn]:
        """Return the address to send a browser to, and what it keeps meanwhile.

        Raises `Unavailable` while the issuer does not answer.
        """
        pending = PendingSignIn(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            place=place if _PLACE.fullmatch(place) else "",
        )
        challenge = urlsafe_b64encode(hashlib.sha256(pending.verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self.terms.client_id,
            "redirect_uri": self.terms.callback,
            "scope": self.terms.scope,
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": challenge.rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        address = await self._await_issuer(self._find_address("authorization_endpoint", "sign-in"))
        joint = "&" if "?" in address else "?"
        return f"{address}{joint}{urlencode(query)}", pending

    async def finish(self, pending: PendingSignIn, state: str, code: str) -> SignedIn:
        """Exchange a code for a token, and return whom it signs in.

        Raises `Refused`, and `Unavailable` while the issuer does not answer.
        """
        if not compare_digest(pending.state.encode(), state.encode()):
            raise create_refusal("the answer belongs to another sign-in")
        async with self._exchanges:
            answer = await self._await_issuer(self._fetch_tokens(code, pending.verifier))
        token = answer.get("id_token" if self.terms.uses_id_token else "access_token")
        if not isinstance(token, str):
            raise create_refusal("the issuer sent no token that signs in here")
        principal = await self.verifier.verify_token(token)
        if self.terms.uses_id_token and read_claims(token).get("nonce") != pending.nonce:
            raise create_refusal("the token was made for another sign-in")
        if len(token) > MAX_COOKIE_TOKEN:
            raise create_refusal(f"the token has more than {MAX_COOKIE_TOKEN} characters")
        return SignedIn(token, principal)

    async def _fetch_tokens(self, code: str, verifier: str) -> Mapping[str, JsonValue]:
        terms = self.terms
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": terms.callback,
            "client_id": terms.client_id,
            "code_verifier": verifier,
        }
        options: dict[str, Any] = {"data": form}
        if terms.client_secret is not None:
            secret = terms.client_secret.get_secret_value()
            if await self._accepts_secret_in_header():
                options["auth"] = (quote(terms.client_id, safe=""), quote(secret, safe=""))
            else:
                form["client_secret"] = secret
        address = await self._find_address("token_endpoint", "tokens")
        found = parse_json(await fetch_document(self.http, "POST", address, **options))
        return found if isinstance(found, dict) else {}

    async def _accepts_secret_in_header(self) -> bool:
        document = await self._fetch_discovery()
        known = document.get("token_endpoint_auth_methods_supported")
        return not isinstance(known, list) or "client_secret_basic" in known

    async def _find_address(self, name: str, what: str) -> str:
        return get_address(await self._fetch_discovery(), name, what)

    async def _fetch_discovery(self) -> Mapping[str, JsonValue]:
        async with self._fetching:
            now = self.monotonic()
            if self._discovery is None or now - self._discovery[0] >= DISCOVERY_SECONDS:
                self._discovery = (now, await fetch_discovery(self.http, self.terms.issuer))
            return self._discovery[1]

    async def _await_issuer(self, request: Awaitable[AnswerT]) -> AnswerT:
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                return await request
        except TimeoutError:
            fault = f"it did not answer within {FETCH_SECONDS:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            fault = f"the request failed: {type(error).__name__}"
        except (IssuerFault, InvalidJson) as error:
            fault = str(error)
        _log.warning("sign-in-failed", issuer=self.terms.issuer, reason=fault)
        raise Unavailable("the issuer of tokens", fault)


def parse_pending(cookie: str | None) -> PendingSignIn:
    """Read the cookie of a sign-in; raises `Refused` for none, and for what is none."""
    try:
        padded = (cookie or "") + "=" * (-len(cookie or "") % 4)
        return PendingSignIn.model_validate_json(urlsafe_b64decode(padded))
    except (ValueError, ValidationError):
        raise Refused(
            "invalid-credentials",
            "this browser has begun no sign-in, or too long ago",
            field="Cookie",
            fix="sign in again from the page",
        ) from None
