"""Checks of every route: whether its sender may call it, and reaches the session that it names.

A session of another user or tenant does not exist for its sender: the answer is 404, the same as
for an id that nobody has.
"""

from __future__ import annotations

from dataclasses import replace

from fastapi import Request

from turnlog.contract import api_paths as paths
from turnlog.events.errors import Refused
from turnlog.events.ids import validate_id
from turnlog.projections.session.decide import refuse_unknown_session
from turnlog.projections.store.read.session_queries import SessionQuery
from turnlog.services.http.authentication import note_recheck
from turnlog.services.http.request_tenant import get_principal
from turnlog.services.identity.permissions import (
    OPEN_PATHS,
    ROOT_PERMISSIONS,
    VALUE_PERMISSIONS,
    Permission,
    find_permission,
    has_permission,
    is_within_share,
    is_within_token,
    list_allowed_roles,
    reaches_own_sessions_only,
)
from turnlog.services.identity.principals import Principal
from turnlog.services.use_cases.sessions.session_reading import SessionReading


async def check_permission(request: Request) -> None:
    """Raise `Refused` `not-permitted` for a sender whose roles do not allow the request."""
    path = str(request.scope["route"].path)
    if path in OPEN_PATHS or not path.startswith(f"{paths.API}/"):
        return  # Pages, probes and the way to sign in are for all.
    principal = await get_principal(request)
    needed = find_permission(path, request.method)
    if not is_within_token(principal, path, request.path_params.get("session")):
        fix = "sign in with a key"
        detail = "a browser token reaches its one session only"
        raise Refused("not-permitted", detail, field="Authorization", fix=fix)
    if needed is None or not has_permission(principal, needed):
        raise create_permission_refusal(f"{request.method} {path}", needed, principal)
    if path == paths.QUOTA and not _reaches_quota(principal, request.path_params["user"]):
        raise create_permission_refusal("the quota of another user", "library:read", principal)
    for name, value in request.query_params.multi_items():
        if name not in VALUE_PERMISSIONS:
            continue
        values, beyond = VALUE_PERMISSIONS[name]
        if value not in values and not has_permission(principal, beyond):
            what = f"another value of `{name}` than {' or '.join(f'`{each}`' for each in values)}"
            raise create_permission_refusal(what, beyond, principal, field=name)


async def check_session_reach(request: Request) -> None:
    """Refuse a session in the path that the sender does not reach."""
    if "session" in request.path_params:
        await require_session_reach(request, request.path_params["session"])


async def require_session_reach(request: Request, session: str) -> None:
    """Raise `Refused` for a session that does not exist for the sender, or not for this request.

    A stream that is read by whom the session is shared with ends when that ends.
    """
    principal = await get_principal(request)
    if not reaches_own_sessions_only(principal):
        return
    sessions: SessionReading = request.app.state.use_cases.sessions
    name, path = validate_id(session, "session"), str(request.scope["route"].path)

    async def require_shared_reach() -> None:
        access = await sessions.load_share(principal.tenant, name, principal.user)
        needed = find_permission(path, request.method)
        if access is None:
            raise refuse_unknown_session()
        if needed is None or not is_within_share(access, path, needed):
            detail = f"the session is shared with you to {access} only"
            raise Refused("not-permitted", detail, field="Authorization", fix="ask its owner")

    if await sessions.is_owned_by(principal.tenant, name, principal.user):
        return
    await require_shared_reach()
    note_recheck(request, require_shared_reach)


def narrow_to_own(principal: Principal, query: SessionQuery) -> SessionQuery:
    """Return a query that selects only sessions which a principal reaches."""
    if not reaches_own_sessions_only(principal):
        return query
    return replace(query, reached_by=principal.user)


def _reaches_quota(principal: Principal, user: str) -> bool:
    return principal.user in {None, user} or has_permission(principal, "library:read")


def create_permission_refusal(
    what: str, needed: Permission | None, principal: Principal, field: str = "Authorization"
) -> Refused:
    """Create the refusal of what a principal may not do, which names the permission it lacks."""
    if needed is None:
        return Refused("not-permitted", f"{what} is for nobody", field=field)
    if needed in ROOT_PERMISSIONS:
        fix = "sign in with the root key of the installation"
        return Refused("not-permitted", f"{what} needs `{needed}`", field=field, fix=fix)
    roles = " or ".join(f"`{role}`" for role in list_allowed_roles(needed))
    fix = f"sign in with the role {roles}"
    if principal.sign_in == "proxy":
        fix = "ask an operator, who can name the user in TURNLOG_OPERATORS"
    return Refused("not-permitted", f"{what} needs `{needed}`", field=field, fix=fix)
