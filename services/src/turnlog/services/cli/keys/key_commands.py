"""Commands on keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from turnlog.services.cli.command_runner import run_command, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the key, or its id.")
]

KeyTenantOption = Annotated[
    str | None,
    typer.Option(
        "--for-tenant", metavar="TENANT", help="The tenant of the key; for the root key alone."
    ),
]

DaysOption = Annotated[
    int | None,
    typer.Option(
        "--days", metavar="DAYS", min=1, max=36_500, help="How long it signs in; by default always."
    ),
]

ALL_TENANTS: Final = "*"


def create_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is called.")],
    *,
    role: Annotated[
        list[str],
        typer.Option("--role", metavar="ROLE", help="What it may do; may be repeated."),
    ],
    user: Annotated[
        str | None,
        typer.Option(
            "--user", metavar="USER", help="The user it signs in; by default it acts for all."
        ),
    ] = None,
    days: DaysOption = None,
    tenant: KeyTenantOption = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Create a key, which is shown once, here.

    A role is `caller`, `watcher`, `operator`, `auditor` or `administrator`.
    """
    from turnlog.client import key_operations
    from turnlog.services.cli.keys.key_view import render_created_key

    form = {
        "name": name,
        "roles": role,
        "user": user,
        "expires": _format_expiry(days),
        "tenant": tenant,
    }
    run_command(target, key_operations.create_key(form), render_created_key, output)


def list_keys(
    *,
    tenant: KeyTenantOption = None,
    all_tenants: Annotated[
        bool, typer.Option("--all", help="The keys of all tenants; for the root key alone.")
    ] = False,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """List the keys, without their secret parts, and the last ones that were revoked."""
    from turnlog.client import key_operations
    from turnlog.services.cli.keys.key_view import render_keys

    chosen = ALL_TENANTS if all_tenants else tenant
    run_command(target, key_operations.list_keys(chosen), render_keys, output)


def rotate_key(
    name: NameArgument,
    *,
    overlap: Annotated[
        int,
        typer.Option(
            "--overlap",
            metavar="SECONDS",
            min=0,
            help="How long the key before it still signs in; by default not at all.",
        ),
    ] = 0,
    days: DaysOption = None,
    tenant: KeyTenantOption = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Replace the secret part of a key; the new key is shown once, here."""
    from turnlog.client import key_operations
    from turnlog.services.cli.keys.key_view import render_created_key

    form = {"overlap_seconds": overlap, "expires": _format_expiry(days)}
    operation = key_operations.rotate_key(name, form, tenant)
    run_command(target, operation, render_created_key, output)


def revoke_key(
    name: NameArgument,
    *,
    tenant: KeyTenantOption = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Let a key sign in no more: every gateway refuses it within a second."""
    from turnlog.client import key_operations
    from turnlog.services.cli.keys.key_view import render_revoked_key

    run_command(target, key_operations.revoke_key(name, tenant), render_revoked_key, output)


def show_principal(*, target: ReadTarget, output: OutputOption = "table") -> None:
    """Show who this command line is to the service, and what it may do."""
    from turnlog.client import key_operations
    from turnlog.services.cli.keys.key_view import render_principal

    show_answer(target, key_operations.fetch_principal(), render_principal, output)


def write_nats_users(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIRECTORY]",
            help="Where `users.conf` and `passwords.env` are written; without it the first is"
            " printed.",
        ),
    ] = None,
) -> None:
    """Write the logins of NATS: one for each role, with what it may publish and subscribe to.

    `users.conf` is included in the `authorization` of each nats-server, whose environment has the
    passwords of `passwords.env`. Passwords that are there already are kept.
    """
    from turnlog.services.cli.actions.nats_users import PASSWORDS_FILE, USERS_FILE, write_users
    from turnlog.services.platform.nats_logins import render_users

    if directory is None:
        typer.echo(render_users(), nl=False)
        return
    created = write_users(directory)
    typer.echo(f"{directory / USERS_FILE}: include it in `authorization` of each server")
    new = ", ".join(created) or "nothing new"
    typer.echo(f"{directory / PASSWORDS_FILE}: {new}")


def _format_expiry(days: int | None) -> str | None:
    return None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
