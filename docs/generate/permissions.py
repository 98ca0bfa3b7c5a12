"""Writes the reference of permissions: which roles may call which route.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from turnlog.services.gateway.app import build_openapi, create_routed_app
from turnlog.services.identity.permissions import (
    PERMISSIONS,
    ROLE_PERMISSIONS,
    ROUTE_PERMISSIONS,
    VALUE_PERMISSIONS,
    find_permission,
    list_allowed_roles,
)

TARGET = Path(__file__).parents[1] / "reference" / "permissions.md"

HEAD = """\
# Who may call which route

Who sends a request has [roles](../keys.md), and each role has permissions. A route needs one of
them; a sender without it is refused with 403 `not-permitted`, which names it. A route that is not
in this list is for nobody. Whoever has the root key has every role, and so has everybody where a
gateway asks for no keys.

| permission | what it allows | roles |
|---|---|---|
"""

VALUES = "\nOf the parameter `{name}` every value but {values} needs `{permission}`.\n"

TABLE = """
| route | what it does | permission | roles |
|---|---|---|---|
"""


def format_page() -> str:
    """Return the text of the page."""
    paths = build_openapi(create_routed_app())["paths"]
    written = {path.replace(":path}", "}"): path for path in ROUTE_PERMISSIONS}
    meanings = (
        f"| `{name}` | {meaning} | {_format_roles(list_allowed_roles(name))} |\n"
        for name, meaning in PERMISSIONS.items()
    )
    values = (
        VALUES.format(
            name=name, values=", ".join(f"`{each}`" for each in usual), permission=permission
        )
        for name, (usual, permission) in VALUE_PERMISSIONS.items()
    )
    rows = (
        _format_route(method.upper(), path, operation["summary"], written[path])
        for path, operations in sorted(paths.items())
        if path in written
        for method, operation in operations.items()
    )
    return "".join((HEAD, *meanings, *values, TABLE, *rows))


def _format_route(method: str, path: str, summary: str, template: str) -> str:
    needed = find_permission(template, method)
    roles = _format_roles([] if needed is None else list_allowed_roles(needed))
    return f"| `{method} {path}` | {summary} | `{needed}` | {roles} |\n"


def _format_roles(roles: Collection[str]) -> str:
    return ", ".join(each for each in ROLE_PERMISSIONS if each in roles)


if __name__ == "__main__":
    TARGET.write_text(format_page())
