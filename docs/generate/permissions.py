"""Writes the reference of permissions: which roles may call which route, and use which command.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from turnlog.services.cli.command_index import COMMAND_SECTIONS, extract_purpose
from turnlog.services.cli.command_permissions import COMMAND_NEEDS
from turnlog.services.gateway.app import build_openapi, create_routed_app
from turnlog.services.identity.permissions import (
    PERMISSIONS,
    ROLE_PERMISSIONS,
    ROOT_PERMISSIONS,
    ROUTE_PERMISSIONS,
    VALUE_PERMISSIONS,
    Permission,
    find_permission,
    list_allowed_roles,
)

TARGET = Path(__file__).parents[1] / "reference" / "permissions.md"

HEAD = """\
# Who may call which route, and use which command

Who sends a request has [roles](../keys.md), and each role has permissions. A route needs one of
them; a sender without it is refused with 403 `not-permitted`, which names it. A route that is not
in this list is for nobody. Whoever has the root key has every role, and so has everybody where a
gateway asks for no keys.

| permission | what it allows | roles |
|---|---|---|
"""

VALUES = "\nOf the parameter `{name}` every value but {values} needs `{permission}`.\n"

COMMANDS = """
## Commands

A command needs what the routes that it calls need; some options need more. A command that finds no
service opens the data directory itself, with every role: then it counts who may read its files.

| command | what it does | permission | with some options | roles |
|---|---|---|---|---|
"""

TABLE = """
| route | what it does | permission | roles |
|---|---|---|---|
"""


def format_page() -> str:
    """Return the text of the page."""
    paths = build_openapi(create_routed_app())["paths"]
    written = {path.replace(":path}", "}"): path for path in ROUTE_PERMISSIONS}
    meanings = (
        f"| `{name}` | {meaning} | {_format_holders(name)} |\n"
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
    return "".join((HEAD, *meanings, *values, TABLE, *rows, COMMANDS, *_iterate_commands()))


def _iterate_commands() -> Iterator[str]:
    for section in COMMAND_SECTIONS:
        for command in section.commands:
            need = COMMAND_NEEDS[command.name]
            always, optional = need.list_permissions(), need.list_optional()
            nats = f"login of NATS: {need.nats}" if need.nats else ""
            needs = "; ".join(filter(None, (_format_names(always), nats, need.note)))
            yield (
                f"| `turnlog {command.name}` | {extract_purpose(command.function)} | "
                f"{needs or 'nothing'} | {_format_names(optional)} | "
                f"{_format_allowed(always)} |\n"
            )


def _format_names(permissions: Collection[str]) -> str:
    return ", ".join(f"`{each}`" for each in permissions)


def _format_route(method: str, path: str, summary: str, template: str) -> str:
    needed = find_permission(template, method)
    holders = "" if needed is None else _format_holders(needed)
    return f"| `{method} {path}` | {summary} | `{needed}` | {holders} |\n"


def _format_holders(permission: Permission) -> str:
    return _format_allowed((permission,))


def _format_allowed(permissions: Collection[Permission]) -> str:
    """Return who has all of these permissions; nothing where none is needed."""
    if not permissions:
        return ""
    if ROOT_PERMISSIONS.intersection(permissions):
        return "the root key alone"
    held = [set(list_allowed_roles(each)) for each in permissions]
    return ", ".join(each for each in ROLE_PERMISSIONS if all(each in roles for roles in held))


if __name__ == "__main__":
    TARGET.write_text(format_page())
