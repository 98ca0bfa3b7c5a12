"""Requests and responses of keys."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from turnlog.contract.payload_models import RequestModel, ResponseModel
from turnlog.contract.request_values import USER_NAME_PATTERN
from turnlog.contract.value_names import RoleName, SignIn

KeyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", min_length=1, max_length=64)]

TenantName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-][A-Za-z0-9_-]*$", max_length=64)]
"""The name of a tenant; those that begin with `_` are Turnlog's own."""

KeyStatus = Literal["active", "expired", "revoked"]


class CreateKeyRequest(RequestModel):
    """Creates a key."""

    name: KeyName
    """Its name, which no other key of the tenant has."""
    tenant: TenantName | None = None
    """The tenant that it signs in to; by default that of the request. Only the installation's
    administrator names another one.
    """
    roles: Annotated[list[RoleName], Field(min_length=1, max_length=5)]
    """What it may do."""
    user: Annotated[str, Field(pattern=USER_NAME_PATTERN)] | None = None
    """The user whom it signs in: it reaches only that user's sessions, unless a role reaches all.
    Without one it acts for all users.
    """
    expires: Annotated[AwareDatetime, Field(strict=False)] | None = None
    """When it signs in no more; by default never."""


class RotateKeyRequest(RequestModel):
    """Replaces the secret part of a key."""

    overlap_seconds: Annotated[int, Field(ge=0, le=30 * 86_400)] = 0
    """How long the key before it still signs in."""
    expires: Annotated[AwareDatetime, Field(strict=False)] | None = None
    """When the new key signs in no more; by default never."""


class KeyView(ResponseModel):
    """A key, without its secret part."""

    id: str
    """Its readable part: a key begins with `tlk_` and this."""
    name: str
    tenant: str
    roles: tuple[RoleName, ...]
    user: str | None = None
    """The user whom it signs in; null for an application that acts for all users."""
    status: KeyStatus
    created_at: str
    """When it was created, RFC 3339."""
    expires: str | None = None
    """When it signs in no more, RFC 3339; null for never."""
    rotated_at: str | None = None
    """When it was last rotated, RFC 3339."""
    previous_until: str | None = None
    """Until when the key before the last rotation signs in, RFC 3339."""
    revoked_at: str | None = None
    """When it was revoked, RFC 3339."""
    used_at: str | None = None
    """Its first use on the last day that it was used, RFC 3339."""


class KeyPage(ResponseModel):
    """The keys of a tenant."""

    sequence: int
    """How many events the keys listed have; it grows with each change of one of them."""
    keys: tuple[KeyView, ...]


class KeyResult(ResponseModel):
    """A key after a command."""

    sequence: int
    """How many events the keys of the tenant have."""
    key: KeyView


class CreatedKey(KeyResult):
    """A key that was created or rotated, with what only this answer contains."""

    secret: str | None = None
    """The whole key; null where the command was carried out before, for only its first answer has
    it: then rotate the key.
    """


class SignInRequest(RequestModel):
    """Signs a browser in."""

    key: Annotated[str, Field(min_length=1, max_length=16_384)]
    """A key; the answer keeps it in a cookie that no script can read."""


class SignInWays(ResponseModel):
    """How a browser may sign in."""

    key: bool
    """Whether a key signs in."""
    issuer: str | None
    """The issuer that a browser is sent to; null for none."""


class CreateBrowserTokenRequest(RequestModel):
    """Creates a token for a browser, at one session."""

    may_submit: bool = False
    """Whether it submits turns too; if not, it reads only."""
    user: Annotated[str, Field(pattern=USER_NAME_PATTERN)] | None = None
    """The user before the browser; only who acts for all users names one."""
    seconds: Annotated[int, Field(ge=1, le=3_600)] = 600
    """How long it signs in."""


class CreatedBrowserToken(ResponseModel):
    """A token for a browser."""

    token: str
    """What the browser sends as `Authorization: Bearer`."""
    session: str
    """The only session that it reaches."""
    expires: str
    """When it signs in no more, RFC 3339."""


class PrincipalView(ResponseModel):
    """Who the sender of a request is to the service."""

    tenant: str
    actor: str
    """What events name."""
    sign_in: SignIn
    """How the sender signed in; `none` where the service asks nobody."""
    roles: tuple[RoleName, ...]
    permissions: tuple[str, ...]
    """What the roles allow."""
    user: str | None = None
    key_id: str | None = None
    """The readable part of the key that was used."""
    session: str | None = None
    """The only session that a browser token reaches."""
    expires: str | None = None
    """When the sender must sign in again, RFC 3339."""
