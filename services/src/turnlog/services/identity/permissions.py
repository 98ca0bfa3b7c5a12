"""What each role may do, and which permission each route needs.

A route that is missing here is for nobody. The two tables are the only place that knows roles;
`docs/reference/permissions.md` is generated from them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from turnlog.contract import api_paths as paths
from turnlog.contract.value_names import RoleName, ShareAccess
from turnlog.services.identity.principals import Principal

Permission = Literal[
    "sessions:read",
    "sessions:write",
    "sessions:all",
    "sessions:release",
    "figures:read",
    "events:read",
    "prompts:read",
    "withheld:read",
    "record:verify",
    "library:read",
    "library:write",
    "limits:write",
    "delivery:write",
    "retention:write",
    "holds:place",
    "holds:release",
    "reads:read",
    "keys:write",
    "tenants:read",
    "tenants:write",
]

PERMISSIONS: Final[Mapping[Permission, str]] = {
    "sessions:read": "Read sessions, their replies and their events as ordinary readers see them.",
    "sessions:write": "Open sessions, submit turns, steer them, and upload files.",
    "sessions:all": "Reach the sessions of all users of the tenant, not only one's own.",
    "sessions:release": "Have sessions folded again whose read models are stopped.",
    "figures:read": "Read usage, growth, caches, forecasts, alerts and the overview.",
    "events:read": "Read the events of all sessions of the tenant.",
    "prompts:read": "Read exact prompts, their origin, and what another rule would do.",
    "withheld:read": "Read withheld texts, and export bundles and proofs, which contain them.",
    "record:verify": "Verify the log, and create checkpoints.",
    "library:read": "Read segments, knowledge, pins, quotas, webhooks, policies and holds.",
    "library:write": "Change segments and knowledge, and move sessions to other versions.",
    "limits:write": "Set quotas, and limits of stored media.",
    "delivery:write": "Change alerts and webhooks.",
    "retention:write": "Change policies of retention, and erase what is due.",
    "holds:place": "Place holds, so that nothing of sessions is erased.",
    "holds:release": "Release holds.",
    "reads:read": "Read who looked at prompts, withheld texts and bundles.",
    "keys:write": "Create, rotate, revoke and list keys.",
    "tenants:read": "Read the settings of the own tenant.",
    "tenants:write": "Change the settings of tenants, and read those of all.",
}
"""Every permission, and what it allows."""

ROLE_PERMISSIONS: Final[Mapping[RoleName, Collection[Permission]]] = {
    "caller": ("sessions:read", "sessions:write"),
    "watcher": ("sessions:read", "sessions:all", "figures:read", "events:read"),
    "operator": (
        *("sessions:read", "sessions:write", "sessions:all", "sessions:release"),
        *("figures:read", "events:read"),
        *("library:read", "library:write", "limits:write", "delivery:write"),
        *("retention:write", "holds:place"),
    ),
    "auditor": (
        *("sessions:read", "sessions:all", "figures:read", "events:read", "library:read"),
        *("prompts:read", "withheld:read", "record:verify", "reads:read"),
        *("holds:place", "holds:release"),
    ),
    "administrator": ("keys:write", "reads:read", "tenants:read"),
}
"""What each role may do; a principal may do what any of its roles may."""

ROOT_PERMISSIONS: Final[frozenset[Permission]] = frozenset({"tenants:write"})
"""What no role may do: it is for whoever administers the installation, above all tenants."""


@dataclass(frozen=True, slots=True)
class RoutePermission:
    """What a route needs, by method; `GET` counts for `HEAD` too."""

    read: Permission
    """What `GET` needs."""
    write: Permission
    """What every other method needs."""


def _create_need(read: Permission, *places: str) -> dict[str, RoutePermission]:
    return dict.fromkeys(places, RoutePermission(read, read))


def _create_needs(read: Permission, write: Permission, *places: str) -> dict[str, RoutePermission]:
    return dict.fromkeys(places, RoutePermission(read, write))


ROUTE_PERMISSIONS: Final[Mapping[str, RoutePermission]] = {
    **_create_needs(
        *("sessions:read", "sessions:write"),
        *(paths.SESSIONS, paths.SESSION, paths.FORK, paths.SHARE, paths.CANCEL, paths.CLOSE),
        *(
            paths.REDACTIONS,
            paths.ERASURES,
            paths.ERASURE,
            paths.CHOICES,
            paths.PHASE,
            paths.PROFILE,
            paths.TOOL_SCHEMAS,
            paths.TURNS,
            paths.TURN,
        ),
        *(paths.HISTORY, paths.TURN_STREAM, paths.TIMELINE, paths.EXCLUSION, paths.DISPLAY),
        *(paths.FEEDBACK, paths.APPROVAL, paths.ASK, paths.MEMORY, paths.REFERENCES),
        *(paths.SUMMARIES, paths.UNDO_SUMMARY, paths.PURGE, paths.CALLS, paths.TOOL_RESULT),
        *(paths.SESSION_EVENTS, paths.EXPORT, paths.VERIFY_SESSION),
        *(paths.BLUEPRINTS, paths.BLUEPRINT, paths.BLOBS, paths.BLOB),
        *(paths.OVERRIDES, paths.OVERRIDE, paths.BROWSER_TOKENS),
    ),
    **_create_need("sessions:release", paths.USER_ERASURES),
    **_create_need("sessions:read", paths.RESOLVE_REFERENCES, paths.PRINCIPAL),
    **_create_needs("sessions:read", "limits:write", paths.QUOTA),
    **_create_need(
        "figures:read",
        *(paths.GROWTH, paths.CACHE_BREAKS, paths.FORECAST, paths.OVERVIEW, paths.USAGE),
    ),
    **_create_need("events:read", paths.EVENTS, paths.APPROVALS, paths.USES),
    **_create_need(
        "prompts:read",
        *(paths.PROMPT, paths.ASSEMBLY, paths.CALL_DIFF, paths.EXPLAINED_CALL),
        *(paths.EXPLAINED_TURN, paths.WINDOW, paths.ASSEMBLE, paths.WHAT_IF),
    ),
    **_create_need("record:verify", paths.VERIFY_LOG, paths.CHECKPOINT),
    **_create_need("withheld:read", paths.CALL_PROOF, paths.ERASURE_PROOF),
    **_create_needs(
        *("library:read", "library:write"),
        *(paths.PINS, paths.SOURCE_ERASURES, paths.SEGMENTS, paths.SEGMENT, paths.IMPORT_SEGMENTS),
        *(paths.COLLECTIONS, paths.COLLECTION, paths.ENTRY, paths.IMPORT_KNOWLEDGE),
        *(paths.SESSION_BLUEPRINT,),
    ),
    **_create_need("library:read", paths.SEARCH_KNOWLEDGE),
    **_create_needs("library:read", "limits:write", paths.QUOTAS, paths.MEDIA_LIMIT),
    **_create_needs(
        *("library:read", "delivery:write"),
        *(paths.WEBHOOKS, paths.WEBHOOK, paths.WEBHOOK_DELIVERIES),
        *(paths.PAUSE_WEBHOOK, paths.RESUME_WEBHOOK, paths.REDELIVER_WEBHOOK),
    ),
    **_create_needs(
        "figures:read", "delivery:write", paths.ALERTS, paths.ALERT, paths.ALERT_HISTORY
    ),
    **_create_needs(
        *("library:read", "retention:write"),
        *(paths.RETENTION, paths.RETENTION_POLICIES, paths.RETENTION_POLICY, paths.DUE_SESSIONS),
    ),
    **_create_needs("library:read", "holds:place", paths.HOLDS),
    **_create_needs("library:read", "holds:release", paths.RELEASE_HOLD),
    **_create_needs(
        *("figures:read", "sessions:release"),
        *(paths.QUARANTINE, paths.QUARANTINED_SESSION, paths.RELEASE),
    ),
    **_create_need("reads:read", paths.READS),
    **_create_need("keys:write", paths.KEYS, paths.KEY, paths.ROTATE_KEY),
    **_create_needs("tenants:read", "tenants:write", paths.TENANTS, paths.TENANT),
}
"""What each path below `/v1` needs."""

OPEN_PATHS: Final[Collection[str]] = frozenset(
    {paths.SIGN_IN, paths.SIGN_IN_AT_ISSUER, paths.SIGN_IN_RETURN}
)
"""Paths below `/v1` that need nothing, for they are how a browser signs in."""

VALUE_PERMISSIONS: Final[Mapping[str, tuple[Collection[str], Permission]]] = {
    "stored": (("false",), "withheld:read"),
    "format": (("ndjson", "chat", "parquet"), "withheld:read"),
}
"""Query parameters with the values that need nothing more, and what every other one needs."""


def list_permissions(principal: Principal) -> Sequence[Permission]:
    """Return what a principal may do, in the order of the table."""
    return tuple(each for each in PERMISSIONS if has_permission(principal, each))


def has_permission(principal: Principal, permission: Permission) -> bool:
    """Return whether a principal may do something."""
    if principal.is_read_only and not _changes_nothing(permission):
        return False
    if permission in ROOT_PERMISSIONS:
        return principal.is_root
    return any(permission in ROLE_PERMISSIONS[role] for role in principal.roles)


def _changes_nothing(permission: Permission) -> bool:
    return permission.endswith(":read")


def find_permission(path: str, method: str) -> Permission | None:
    """Return what a route needs; None for one that nobody may call."""
    needed = ROUTE_PERMISSIONS.get(path)
    if needed is None:
        return None
    return needed.read if method in {"GET", "HEAD"} else needed.write


def list_allowed_roles(permission: Permission) -> Sequence[RoleName]:
    """Return the roles that have a permission, in the order of the table."""
    return tuple(role for role, held in ROLE_PERMISSIONS.items() if permission in held)


def reaches_own_sessions_only(principal: Principal) -> bool:
    """Return whether a principal reaches only the sessions of its user.

    A browser token reaches its one session, whosever it is.
    """
    has_own = principal.user is not None and principal.session is None
    return has_own and not has_permission(principal, "sessions:all")


PATHS_BESIDE_SESSION: Final[Collection[str]] = frozenset({paths.PRINCIPAL, paths.BLOBS, paths.BLOB})
"""What a browser token reaches beside its session: the pictures and files that turns name by
digest."""

PATHS_OUT_OF_SESSION: Final[Collection[str]] = frozenset(
    {paths.FORK, paths.SHARE, paths.BROWSER_TOKENS}
)
"""What neither a browser token nor a user whom a session is shared with reaches of it: what leads
out of it."""


def is_within_token(principal: Principal, path: str, session: str | None) -> bool:
    """Return whether a route is one of those that the token of a principal is for."""
    if principal.session is None or path in PATHS_BESIDE_SESSION:
        return True
    return session == principal.session and path not in PATHS_OUT_OF_SESSION


def is_within_share(access: ShareAccess, path: str, needed: Permission) -> bool:
    """Return whether a user whom a session is shared with may call a route of it."""
    return path not in PATHS_OUT_OF_SESSION and (access == "submit" or _changes_nothing(needed))
