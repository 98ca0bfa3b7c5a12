"""Bearer tokens of an OpenID Connect issuer, verified here; Turnlog issues none itself.

A signature is verified with the key that the issuer publishes, by an algorithm of that key: what a
token says of keys (`jku`, `jwk`, `x5u`) is not read. Claims are those of the verified bytes. What
was verified is remembered by the token's SHA-256 until it expires, or until its key is withdrawn.
"""

from __future__ import annotations

import binascii
import hashlib
import re
import time
from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError
from pydantic import JsonValue

from turnlog.contract.request_values import USER_NAME_FORM
from turnlog.contract.value_names import RoleName
from turnlog.events.errors import Refused
from turnlog.events.seals.person_names import USER_ACTOR_PREFIX
from turnlog.projections.blueprint.bounded_json import (
    UNIQUE_DECODER,
    InvalidJson,
    parse_json,
)
from turnlog.services.identity.issuer_keys import IssuerKeys
from turnlog.services.identity.key_sets import choose_key, has_key_id
from turnlog.services.identity.principals import Principal

MAX_TOKEN_SIZE: Final = 16_384
"""Characters of a token; a longer one is refused before it is read."""

CLOCK_SKEW: Final = 30.0
"""Seconds that the issuer's clock may differ from ours."""

MAX_REMEMBERED: Final = 10_000
"""Verified tokens that a gateway remembers, of some 500 bytes each."""

EVERYBODY: Final = "*"
"""The name of a role that everybody has whose token is verified."""

_SEGMENT: Final = r"[A-Za-z0-9_-]+"

_TOKEN: Final = re.compile(rf"{_SEGMENT}\.{_SEGMENT}\.{_SEGMENT}")

_TENANT: Final = re.compile(r"[A-Za-z0-9-][A-Za-z0-9_-]{0,63}")
"""Names of tenants that begin with `_` belong to Turnlog."""

_USER: Final = re.compile(USER_NAME_FORM)

Claims = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcTerms:
    """Which tokens count, and what their claims mean."""

    issuer: str
    audience: str
    tenant: str
    """The tenant of tokens where no claim names one."""
    tenant_claim: str | None = None
    roles_claim: str = "roles"
    user_claim: str = "sub"
    roles: Mapping[str, tuple[RoleName, ...]]
    """Our roles by the names of the issuer."""


class OidcVerifier:
    """Verifies the tokens of one issuer; belongs to one event loop."""

    def __init__(
        self, terms: OidcTerms, keys: IssuerKeys, *, now: Callable[[], float] = time.time
    ) -> None:
        self._terms = terms
        self._keys = keys
        self._now = now
        self._signatures = PyJWS()
        self._remembered = OrderedDict[bytes, Principal]()
        self._generation = keys.generation

    async def verify_token(self, token: str) -> Principal:
        """Return whom a token signs in.

        Raises `Refused` `invalid-credentials`, and `Unavailable` while its issuer is not reached.
        """
        if len(token) > MAX_TOKEN_SIZE:
            raise create_refusal(f"the token has more than {MAX_TOKEN_SIZE} characters")
        if _TOKEN.fullmatch(token) is None:
            raise create_refusal("the token is no signed JSON Web Token")
        digest = hashlib.sha256(token.encode()).digest()
        known = self._recall_principal(digest)
        if known is not None:
            return known
        claims = await self._read_verified_claims(token)
        principal = _build_principal(claims, self._terms, self._now())
        self._remembered[digest] = principal
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return principal

    async def close(self) -> None:
        """End what runs in the background."""
        await self._keys.close()

    def _recall_principal(self, digest: bytes) -> Principal | None:
        self._keys.refresh_stale_keys()
        if self._generation != self._keys.generation:
            self._generation = self._keys.generation
            self._remembered.clear()
        principal = self._remembered.get(digest)
        if principal is None:
            return None
        if principal.expires is not None and principal.expires <= self._now():
            del self._remembered[digest]
            raise create_refusal("the token is expired")
        self._remembered.move_to_end(digest)
        return principal

    async def _read_verified_claims(self, token: str) -> Claims:
        header = _parse_segment(token.partition(".")[0], "header")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
            raise create_refusal("the header of the token is invalid")
        if "crit" in header or "b64" in header:
            raise create_refusal("the token demands an extension that is not known here")
        keys = await self._keys.list_keys(key_id)
        key = choose_key(keys, key_id, algorithm)
        if key is None:
            is_known = has_key_id(keys, key_id)
            problem = "no single key fits its algorithm" if is_known else "its key is not known"
            raise create_refusal(f"the signature of the token cannot be verified: {problem}")
        try:
            self._signatures.decode_complete(token, key.key, [algorithm])
        except (PyJWTError, ValueError, TypeError):
            raise create_refusal("the signature of the token is wrong") from None
        return read_claims(token)


def read_claims(token: str) -> Claims:
    """Return the claims of a token whose signature was verified."""
    return _parse_segment(token.split(".")[1], "payload")


def create_refusal(detail: str) -> Refused:
    """Return the refusal of a token."""
    fix = "sign in again, and send a token that its issuer made for this service"
    return Refused("invalid-credentials", detail, field="Authorization", fix=fix)


def _parse_segment(segment: str, name: str) -> Claims:
    """Return a segment's object, in which no key is repeated."""
    try:
        raw = urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
        found = parse_json(raw, decoder=UNIQUE_DECODER, as_written=True)
    except (InvalidJson, binascii.Error):
        found = None
    if not isinstance(found, dict):
        raise create_refusal(f"the {name} of the token is invalid")
    return found


def _build_principal(claims: Claims, terms: OidcTerms, now: float) -> Principal:
    if claims.get("iss") != terms.issuer:
        raise create_refusal("the claim `iss` of the token names another issuer")
    audiences = claims.get("aud")
    if terms.audience not in (audiences if isinstance(audiences, list) else [audiences]):
        raise create_refusal("the claim `aud` of the token does not name this service")
    expires = _read_time(claims, "exp")
    if expires is None:
        raise create_refusal("the token has no claim `exp`")
    if expires + CLOCK_SKEW <= now:
        raise create_refusal("the token is expired")
    for name in ("nbf", "iat"):
        begin = _read_time(claims, name)
        if begin is not None and begin - CLOCK_SKEW > now:
            raise create_refusal(f"the claim `{name}` of the token lies in the future")
    user = _read_name(claims, terms.user_claim, _USER)
    return Principal(
        tenant=_read_name(claims, terms.tenant_claim, _TENANT)
        if terms.tenant_claim
        else terms.tenant,
        actor=f"{USER_ACTOR_PREFIX}{user}",
        roles=_read_roles(claims, terms),
        sign_in="oidc",
        user=user,
        expires=expires + CLOCK_SKEW,
    )


def _read_time(claims: Claims, name: str) -> float | None:
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LATEST:
        raise create_refusal(f"the claim `{name}` of the token is no time")
    return float(value)


_LATEST: Final = 253_402_300_800
"""The first second of the year 10000."""


def _read_name(claims: Claims, name: str, form: re.Pattern[str]) -> str:
    value = find_claim(claims, name)
    if value is None:
        raise create_refusal(f"the token has no claim `{name}`")
    if not isinstance(value, str) or form.fullmatch(value) is None:
        raise create_refusal(f"the claim `{name}` of the token is no name that is allowed here")
    return value


def _read_roles(claims: Claims, terms: OidcTerms) -> frozenset[RoleName]:
    value = find_claim(claims, terms.roles_claim)
    if value is None and EVERYBODY not in terms.roles:
        raise create_refusal(f"the token has no claim `{terms.roles_claim}`")
    given = value.split(" ") if isinstance(value, str) else value if value is not None else []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise create_refusal(f"the claim `{terms.roles_claim}` of the token is no list of names")
    names = {EVERYBODY, *(each for each in given if isinstance(each, str))}
    return frozenset(role for name in names for role in terms.roles.get(name, ()))


def find_claim(claims: Claims, name: str) -> JsonValue:
    """Return a claim by its name, or by its path through objects, such as `realm_access.roles`."""
    if name in claims:
        return claims[name]
    value: JsonValue = dict(claims)
    for step in name.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value
