"""Commands on the quotas of users."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from turnlog.services.cli.command_runner import run_command, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """The limits of a user."""

    input_tokens: Annotated[
        int | None,
        typer.Option("--input-tokens", metavar="NUMBER", min=0, help="Tokens sent in a month."),
    ] = None
    output_tokens: Annotated[
        int | None,
        typer.Option(
            "--output-tokens", metavar="NUMBER", min=0, help="Tokens received in a month."
        ),
    ] = None
    requests_per_hour: Annotated[
        int | None,
        typer.Option("--requests-per-hour", metavar="NUMBER", min=0, help="Turns in an hour."),
    ] = None
    requests_per_day: Annotated[
        int | None,
        typer.Option("--requests-per-day", metavar="NUMBER", min=0, help="Turns on a day."),
    ] = None


def set_quota(
    user: UserArgument,
    *,
    limits: LimitOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Set all limits of a user, from the next turn on.

    A limit that is not given is unlimited; a user without any has no quota.
    """
    from turnlog.client import tenant_operations
    from turnlog.services.cli.quotas.quota_view import render_quota

    run_command(target, tenant_operations.set_quota(user, asdict(limits)), render_quota, output)


def show_quota(
    user: Annotated[
        str | None, typer.Argument(metavar="[USER]", help="A user; by default all with a limit.")
    ] = None,
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show what is left of a user's limits, or the limits of all users."""
    from turnlog.client import tenant_operations
    from turnlog.services.cli.quotas.quota_view import render_quota, render_quotas

    if user is None:
        show_answer(target, tenant_operations.list_quotas(), render_quotas, output)
    else:
        show_answer(target, tenant_operations.fetch_quota(user), render_quota, output)


def limit_media(
    limit: Annotated[
        str | None,
        typer.Argument(metavar="[BYTES]", help="Bytes, or `unlimited`; shown if left out."),
    ] = None,
    *,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Show or set how many bytes the media of the tenant may have together.

    They are pictures, recordings, files and large results of tools. Nothing that is stored is
    removed.
    """
    from turnlog.client import tenant_operations
    from turnlog.services.cli.quotas.quota_view import render_media_limit

    operation = (
        tenant_operations.fetch_media_limit()
        if limit is None
        else tenant_operations.set_media_limit(_parse_media_limit(limit))
    )
    run_command(target, operation, render_media_limit, output)


def _parse_media_limit(text: str) -> int | None:
    if text == "unlimited":
        return None
    if not text.isdecimal():
        raise typer.BadParameter("give a number of bytes, or `unlimited`")
    return int(text)
