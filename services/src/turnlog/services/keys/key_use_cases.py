"""Creating, listing, rotating and revoking keys.

An administrator of a tenant has the tenant's keys only; whoever has the root key has all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from turnlog.contract.installation.key_payloads import (
    CreateBrowserTokenRequest,
    CreatedBrowserToken,
    CreatedKey,
    CreateKeyRequest,
    KeyPage,
    KeyResult,
    KeyStatus,
    KeyView,
    PrincipalView,
    RotateKeyRequest,
)
from turnlog.events.codec import format_rfc3339
from turnlog.events.errors import Refused
from turnlog.events.ids import validate_id
from turnlog.events.model.installation.access_events import KeyCreated, KeyRotated
from turnlog.projections.access.access_keys import AccessKey
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.services.command_handling.callers import Caller
from turnlog.services.identity.access_key_service import (
    AccessKeyService,
    KeyChange,
    NewSecret,
    check_expiry,
    create_secret,
)
from turnlog.services.identity.authenticator import ROOT_NAME
from turnlog.services.identity.browser_tokens import BrowserTokenRequest, BrowserTokens
from turnlog.services.identity.permissions import has_permission, list_permissions
from turnlog.services.identity.principals import Principal
from turnlog.services.sessions.command_handler import CommandHandler

ALL_TENANTS: Final = "*"
"""What the installation's administrator names to see the keys of all tenants."""


@dataclass(frozen=True, slots=True)
class KeyUseCases:
    """Reads and changes keys."""

    service: AccessKeyService
    sessions: CommandHandler
    browser_tokens: BrowserTokens | None
    """Those of the root key; None without one."""

    async def create_browser_token(
        self, principal: Principal, session: str, form: CreateBrowserTokenRequest
    ) -> CreatedBrowserToken:
        """Create a token that lets a browser at one session which the principal reaches."""
        await self.sessions.require_state(principal.tenant, validate_id(session, "session"))
        tokens = self._require_root_key()
        if form.may_submit and not has_permission(principal, "sessions:write"):
            detail = "who may not submit turns creates no token that may"
            raise Refused("not-permitted", detail, field="may_submit", fix="leave it out")
        request = BrowserTokenRequest(
            session=session, may_submit=form.may_submit, user=form.user, seconds=form.seconds
        )
        token, expires = tokens.create_token(principal, request)
        at = format_rfc3339(datetime.fromtimestamp(expires, UTC))
        return CreatedBrowserToken(token=token, session=session, expires=at)

    async def list_keys(self, principal: Principal, tenant: str | None) -> KeyPage:
        """List the keys of a tenant, by default one's own, the last revoked ones among them."""
        chosen = choose_tenant(principal, tenant)
        found = await self.service.load_keys()
        now = self.service.parts.clock()
        listed = None if chosen == ALL_TENANTS else chosen
        return KeyPage(
            sequence=found.get_sequence(listed),
            keys=tuple(_create_view(each, now) for each in found.list_keys(listed)),
        )

    async def create_key(
        self, principal: Principal, caller: Caller, form: CreateKeyRequest
    ) -> CreatedKey:
        """Create a key; raises `Refused` for a name that is taken, or a tenant of another's."""
        self._require_root_key()
        if form.name == ROOT_NAME:
            detail = f"`{ROOT_NAME}` is what the root key is called"
            raise Refused("key-taken", detail, field="name", fix="use another name")
        secret = create_secret()
        created = KeyCreated(
            id=secret.id,
            name=form.name,
            tenant=choose_tenant(principal, form.tenant),
            roles=tuple(sorted(set(form.roles))),
            user=form.user,
            hash=secret.digest,
            expires=check_expiry(form.expires, self.service.parts.clock()),
        )
        return self._create_answer(await self.service.create_key(caller, created), secret)

    async def rotate_key(
        self,
        principal: Principal,
        caller: Caller,
        name: str,
        form: RotateKeyRequest,
        tenant: str | None,
    ) -> CreatedKey:
        """Replace the secret part of a key, which keeps its id, name and roles."""
        known = await self._find_key(principal, name, tenant)
        now, secret = self.service.parts.clock(), create_secret(known.id)
        rotated = KeyRotated(
            id=known.id,
            hash=secret.digest,
            previous_until=format_rfc3339(now + timedelta(seconds=form.overlap_seconds)),
            expires=check_expiry(form.expires, now),
        )
        return self._create_answer(await self.service.rotate_key(caller, rotated), secret)

    async def revoke_key(
        self, principal: Principal, caller: Caller, name: str, tenant: str | None
    ) -> KeyResult:
        """Let a key sign in no more; every gateway refuses it within a second."""
        known = await self._find_key(principal, name, tenant)
        change = await self.service.revoke_key(caller, known.id)
        view = _create_view(change.key, self.service.parts.clock())
        return KeyResult(sequence=change.sequence, key=view)

    async def _find_key(self, principal: Principal, name: str, tenant: str | None) -> AccessKey:
        self._require_root_key()
        chosen = choose_tenant(principal, tenant)
        return (await self.service.load_keys()).get_key(chosen, check_text(name, "name"))

    def _require_root_key(self) -> BrowserTokens:
        """Return what follows from the root key; raises `Refused` where there is none."""
        if self.browser_tokens is None:
            detail = "this gateway asks for no keys, so one would open nothing"
            fix = "set TURNLOG_ROOT_KEY at all gateways, and sign in with it"
            raise Refused("keys-not-configured", detail, field="Authorization", fix=fix)
        return self.browser_tokens

    def _create_answer(self, change: KeyChange, secret: NewSecret) -> CreatedKey:
        return CreatedKey(
            sequence=change.sequence,
            key=_create_view(change.key, self.service.parts.clock()),
            secret=None if change.is_repeated else secret.text,
        )


def choose_tenant(principal: Principal, named: str | None) -> str:
    """Return the tenant that a request is about; raises `Refused` for one that is not its own."""
    if named is None or named == principal.tenant:
        return principal.tenant
    if principal.sign_in == "root-key":
        return named
    detail = "only the root key reaches other tenants"
    raise Refused("not-permitted", detail, field="tenant", fix="leave it out")


def create_principal_view(principal: Principal) -> PrincipalView:
    """Return a principal as answers have it."""
    expires = principal.expires
    moment = None if expires is None else datetime.fromtimestamp(expires, UTC)
    return PrincipalView(
        tenant=principal.tenant,
        actor=principal.actor,
        sign_in=principal.sign_in,
        roles=tuple(sorted(principal.roles)),
        permissions=tuple(list_permissions(principal)),
        user=principal.user,
        key_id=principal.key_id,
        session=principal.session,
        expires=None if moment is None else format_rfc3339(moment),
    )


def _create_view(key: AccessKey, now: datetime) -> KeyView:
    return KeyView.model_validate(
        {
            **{name: getattr(key, name) for name in _PLAIN_FIELDS},
            "status": _get_status(key, now),
            "expires": key.expires and format_rfc3339(key.expires),
            "previous_until": key.previous_until and format_rfc3339(key.previous_until),
        }
    )


_PLAIN_FIELDS: Final = (
    *("id", "name", "tenant", "roles", "user"),
    *("created_at", "rotated_at", "revoked_at", "used_at"),
)


def _get_status(key: AccessKey, now: datetime) -> KeyStatus:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.is_expired(now) else "active"
