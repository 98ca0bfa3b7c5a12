"""How a request says who sends it: by a key, a token, a header of a trusted proxy, or not at all.

A gateway with `TURNLOG_ROOT_KEY` or `TURNLOG_OIDC_ISSUER` asks everybody. One that trusts a proxy
takes the user's name from its header. On loopback one without keys asks nobody else; beyond it
nobody is served who does not say who he is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hmac import compare_digest
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

from turnlog.contract.request_values import USER_NAME_FORM
from turnlog.contract.value_names import RoleName
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused, TurnlogError
from turnlog.events.seals.person_names import USER_ACTOR_PREFIX, is_pseudonym
from turnlog.projections.access.access_keys import AccessKey
from turnlog.services.identity.access_key_service import KEY_PREFIX, AccessKeyService
from turnlog.services.identity.browser_tokens import BROWSER_TOKEN_PREFIX, BrowserTokens
from turnlog.services.identity.oidc_setup import OidcAccess
from turnlog.services.identity.principals import ALL_ROLES, KEY_ACTOR_PREFIX, Principal
from turnlog.services.platform.loopback import is_loopback_host
from turnlog.services.platform.process_settings import GatewaySettings

AUTHORIZATION: Final = "Authorization"

KEY_COOKIE: Final = "turnlog-key"
"""The cookie in which a browser keeps the key that it was signed in with."""

EVERY_USER: Final = "*"
"""The operator who is every user of a proxy."""

PROXIED_ROLES: Final[frozenset[RoleName]] = frozenset(("caller",))
"""What a user may do whom a proxy names and `TURNLOG_OPERATORS` does not."""

ROOT_NAME: Final = "root"
"""What events call whoever has the root key; no key has this name."""

MAX_CREDENTIAL: Final = 16_384
"""Most characters of a credential: tokens of some issuers have the groups of their users."""

_USER_NAME: Final = re.compile(USER_NAME_FORM)
"""Printable ASCII, because a header has no encoding that all proxies agree on."""

_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([!-~]+) *")


ReadHeader = Callable[[str], Sequence[str]]
"""Return all values of a header of a request."""


@dataclass(kw_only=True)
class Authenticator:
    """Tells who sends a request, for one gateway."""

    settings: GatewaySettings
    keys: AccessKeyService
    browser_tokens: BrowserTokens | None = None
    """Those of the root key; None without one."""
    oidc: OidcAccess | None = None
    """The ways in by an issuer; None without one."""
    _noting: set[asyncio.Task[None]] = field(init=False, default_factory=set[asyncio.Task[None]])

    requires_sign_in: bool = field(init=False)
    """Whether nobody is served who does not say who it is."""

    def __post_init__(self) -> None:
        settings = self.settings
        self.requires_sign_in = has_credentials(settings) or not is_on_loopback(settings)

    async def authenticate(
        self, read_header: ReadHeader, sender: str, *, is_open: bool = False
    ) -> Principal:
        """Return who sends a request from an address; `is_open` is one that needs no principal.

        Raises `Refused` for what cannot be believed and for a sender who must sign in, and
        `Unavailable` while keys cannot be read.
        """
        principal = await self._find_principal(read_header, sender, is_open=is_open)
        if principal.user is not None and is_pseudonym(principal.user):
            detail = "the name of the user has the form of a pseudonym"
            raise Refused("bad-actor", detail, field="user", fix="sign in under another name")
        return principal

    async def _find_principal(
        self, read_header: ReadHeader, sender: str, *, is_open: bool
    ) -> Principal:
        if (user := self._read_proxied_user(read_header, sender)) is not None:
            return self._create_proxied(user)
        if is_open:
            return self._create_stranger() if self.requires_sign_in else self._create_anybody()
        credential = read_credential(read_header)
        if credential is None and self.requires_sign_in:
            credential = read_cookie(read_header)
        if credential is not None and (self.requires_sign_in or credential.startswith(KEY_PREFIX)):
            return await self.check_credential(credential)
        if self.requires_sign_in:
            raise create_sign_in_refusal()
        return self._create_anybody()

    def _create_anybody(self) -> Principal:
        return Principal(tenant=self.settings.tenant, is_root=True)

    def _create_stranger(self) -> Principal:
        return Principal(tenant=self.settings.tenant, roles=frozenset())

    async def is_still_valid(self, principal: Principal) -> bool:
        """Return whether a principal that was let in would be let in now."""
        now = self.keys.parts.clock().timestamp()
        if principal.expires is not None and now >= principal.expires:
            return False
        return principal.key_id is None or await self.keys.is_valid(principal.key_id)

    def _read_proxied_user(self, read_header: ReadHeader, sender: str) -> str | None:
        header = self.settings.actor_header
        names = read_header(header)
        if not names:
            return None
        _check_sender(sender, header, self.settings.actor_proxies)
        if len(names) > 1:
            detail = f"the request names {len(names)} users"
            fix = "let the proxy set the header instead of adding one"
            raise Refused("bad-actor", detail, field=header, fix=fix)
        if _USER_NAME.fullmatch(names[0]) is None:
            fix = "send 1 to 128 printable ASCII characters, or leave the header out"
            raise Refused("bad-actor", "the name of the user is invalid", field=header, fix=fix)
        return names[0]

    def _create_proxied(self, user: str) -> Principal:
        operators = self.settings.operators
        is_operator = user in operators or EVERY_USER in operators
        return Principal(
            tenant=self.settings.tenant,
            actor=f"{USER_ACTOR_PREFIX}{user}",
            roles=ALL_ROLES if is_operator else PROXIED_ROLES,
            sign_in="proxy",
            user=user,
            is_root=is_operator and not has_credentials(self.settings),
        )

    async def check_credential(self, credential: str) -> Principal:
        """Return whom a key or a token signs in; raises `Refused` and `Unavailable`."""
        if self.oidc is not None and not credential.startswith((KEY_PREFIX, BROWSER_TOKEN_PREFIX)):
            root = self._check_root_key(credential)
            return root or await self.oidc.verifier.verify_token(credential)
        if self.browser_tokens is not None and credential.startswith(BROWSER_TOKEN_PREFIX):
            return await self._check_browser_token(self.browser_tokens, credential)
        return self._check_root_key(credential) or await self._check_key(credential)

    def _check_root_key(self, credential: str) -> Principal | None:
        root = self.settings.root_key
        # Digests are of one length, so that the time of a comparison says nothing of the key.
        if root is None or not compare_digest(
            compute_digest(credential), compute_digest(root.get_secret_value())
        ):
            return None
        return Principal(
            tenant=self.settings.tenant,
            actor=f"{KEY_ACTOR_PREFIX}{ROOT_NAME}",
            sign_in="root-key",
            is_root=True,
        )

    async def _check_browser_token(self, tokens: BrowserTokens, credential: str) -> Principal:
        principal = tokens.verify_token(credential)
        if principal.key_id is not None and not await self.keys.is_valid(principal.key_id):
            raise create_credential_refusal()
        return principal

    async def _check_key(self, credential: str) -> Principal:
        if self.settings.root_key is None:
            detail = "this gateway asks for no keys, so it does not know whose this is"
            fix = "leave the key out, or set TURNLOG_ROOT_KEY at the gateway"
            raise Refused("keys-not-configured", detail, field=AUTHORIZATION, fix=fix)
        key = await self.keys.find_key(credential)
        if key is None:
            raise create_credential_refusal()
        self._note_use(key)
        return _create_key_principal(key)

    def _note_use(self, key: AccessKey) -> None:
        """Record the first use of a day, without the request waiting for it."""
        if not key.is_use_due(self.keys.parts.clock()):
            return

        async def note() -> None:
            # The next request of the key tries again.
            with suppress(TurnlogError):
                await self.keys.note_use(key, f"{KEY_ACTOR_PREFIX}{key.name}")

        task = asyncio.create_task(note())
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)


def read_credential(read_header: ReadHeader) -> str | None:
    """Return what a request signs in with, or None; raises `Refused` for several."""
    written = read_header(AUTHORIZATION)
    if not written:
        return None
    if len(written) > 1:
        detail = f"the request has {len(written)} credentials"
        raise Refused("invalid-credentials", detail, field=AUTHORIZATION, fix="send one")
    if len(written[0]) > MAX_CREDENTIAL:
        raise create_credential_refusal()
    bearer = _BEARER.fullmatch(written[0])
    return bearer[1] if bearer else None


def read_cookie(read_header: ReadHeader) -> str | None:
    """Return the key that a browser was signed in with, or None."""
    for written in read_header("Cookie"):
        for pair in written.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == KEY_COOKIE and value and len(value) <= MAX_CREDENTIAL:
                return value
    return None


def create_sign_in_refusal() -> Refused:
    """Create the refusal of a request that does not say who sends it."""
    fix = "send `Authorization: Bearer` and a key; the command line takes TURNLOG_KEY"
    detail = "this service answers only those who sign in"
    return Refused("not-signed-in", detail, field=AUTHORIZATION, fix=fix)


def create_credential_refusal() -> Refused:
    """Create the one refusal of a credential, which does not tell why it is none."""
    detail = "the key or token is unknown, wrong, expired or revoked"
    return Refused("invalid-credentials", detail, field=AUTHORIZATION, fix="use another one")


def _create_key_principal(key: AccessKey) -> Principal:
    actor = f"{KEY_ACTOR_PREFIX}{key.name}" if key.user is None else USER_ACTOR_PREFIX + key.user
    return Principal(
        tenant=key.tenant,
        actor=actor,
        # A role of a later release allows nothing here.
        roles=ALL_ROLES.intersection(key.roles),
        sign_in="key",
        user=key.user,
        key_id=key.id,
    )


def _check_sender(sender: str, header: str, trusted: Collection[IPv4Network | IPv6Network]) -> None:
    if not trusted:
        detail = "this gateway takes no user's name from a header: no proxy is trusted to send it"
        fix = "leave the header out, or name the proxy's address in TURNLOG_ACTOR_PROXIES"
        raise Refused("actor-not-configured", detail, field=header, fix=fix)
    if not is_trusted_sender(sender, trusted):
        detail = f"{sender or 'the sender'} is not trusted to name a user"
        fix = "send the request through the proxy, or name the address in TURNLOG_ACTOR_PROXIES"
        raise Refused("actor-not-trusted", detail, field=header, fix=fix)


def is_trusted_sender(sender: str, trusted: Collection[IPv4Network | IPv6Network]) -> bool:
    """Return whether an address belongs to one of the networks."""
    try:
        address: IPv4Address | IPv6Address = ip_address(sender)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in trusted)


def has_credentials(settings: GatewaySettings) -> bool:
    """Return whether a gateway has keys or tokens to ask everybody for."""
    return settings.root_key is not None or settings.oidc_issuer is not None


def is_on_loopback(settings: GatewaySettings) -> bool:
    """Return whether only processes of this machine reach a gateway."""
    return is_loopback_host(urlsplit(f"//{settings.http}").hostname or "")


def check_listener(settings: GatewaySettings) -> None:
    """Raise `Refused` for an address that others reach, while nobody could say who he is."""
    if has_credentials(settings) or settings.actor_proxies or is_on_loopback(settings):
        return
    detail = f"everybody who reaches {settings.http} would read and change everything"
    fix = (
        "set TURNLOG_ROOT_KEY, so that keys are asked for; or TURNLOG_OIDC_ISSUER, whose tokens "
        "sign in; or name a proxy that signs people in, in TURNLOG_ACTOR_PROXIES; or listen on "
        "127.0.0.1"
    )
    raise Refused("unprotected", detail, field="http", fix=fix)
