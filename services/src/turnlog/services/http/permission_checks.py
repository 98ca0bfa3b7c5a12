"""Checks of every route: whether its sender may call it, and reaches the session that it names.

A session of another user or tenant does not exist for its sender: the answer is 404, the same as
for an id that nobody has.
"""

from __future__ import annotations

from fastapi import Request

from turnlog.contract import api_paths as paths
from turnlog.events.errors import Refused
from turnlog.services.http.request_tenant import get_principal
from turnlog.services.identity.permissions import (
    VALUE_PERMISSIONS,
    Permission,
    find_permission,
    has_permission,
    is_within_token,
    list_allowed_roles,
)
from turnlog.services.identity.principals import Principal


async def check_permission(request: Request) -> None:
    """Raise `Refused` `not-permitted` for a sender whose roles do not allow the request."""
    path = str(request.scope["route"].path)
    if not path.startswith(f"{paths.API}/"):
        return  # Pages and probes are for all.
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
        values, beyond = VALUE_PERMISSIONS.get(name, ((value,), needed))
        if value not in values and not has_permission(principal, beyond):
            what = f"another value of `{name}` than {' or '.join(f'`{each}`' for each in values)}"
            raise create_permission_refusal(what, beyond, principal, field=name)


def _reaches_quota(principal: Principal, user: str) -> bool:
    return principal.user in {None, user} or has_permission(principal, "library:read")


def create_permission_refusal(
    what: str, needed: Permission | None, principal: Principal, field: str = "Authorization"
) -> Refused:
    """Create the refusal of what a principal may not do, which names the permission it lacks."""
    if needed is None:
        return Refused("not-permitted", f"{what} is for nobody", field=field)
    roles = " or ".join(f"`{role}`" for role in list_allowed_roles(needed))
    fix = f"sign in with the role {roles}"
    if principal.sign_in == "proxy":
        fix = "ask an operator, who can name the user in TURNLOG_OPERATORS"
    return Refused("not-permitted", f"{what} needs `{needed}`", field=field, fix=fix)
