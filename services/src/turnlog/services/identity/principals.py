"""The principal of a request: who sends it, for which tenant, and with which roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from turnlog.contract.value_names import RoleName, SignIn

ALL_ROLES: Final[frozenset[RoleName]] = frozenset(get_args(RoleName))
"""`permissions.ROLE_PERMISSIONS` says what each may do."""

ANONYMOUS_ACTOR: Final = "client"
"""The actor of a request whose sender nobody named."""

KEY_ACTOR_PREFIX: Final = "key:"
"""Before the name of a key that belongs to no user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who sends a request."""

    tenant: str
    """The only tenant whose sessions and library the principal reaches."""
    actor: str = ANONYMOUS_ACTOR
    """What events and the log of reads name."""
    roles: frozenset[RoleName] = ALL_ROLES
    sign_in: SignIn = "none"
    user: str | None = None
    """The user whom the principal is; None for an application that acts for all users."""
    key_id: str | None = None
    """The key that it signed in with, or that its token was made by."""
    session: str | None = None
    """The only session that a browser token reaches; None for no such limit."""
    is_read_only: bool = False
    """Whether it changes nothing, whatever its roles allow; so a browser token may be."""
    is_root: bool = False
    """Whether it administers the installation, above all tenants: it has the root key, or there is
    none and it may do everything that the gateway allows anybody.
    """
    expires: float | None = None
    """When it must sign in again, in seconds since 1970; None for never."""
