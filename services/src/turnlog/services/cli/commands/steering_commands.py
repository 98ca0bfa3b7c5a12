"""Commands that change how a session continues, and the one that shows a tool result."""

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.commands.command_runner import run_async, run_with_reader
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget, SessionArgument


def switch_profile(
    session: SessionArgument,
    *,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="PROFILE", help="Without it the present one; say one of the two."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="Without it the profile's own."),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Let a session go on by another profile or another model, from its next turn on."""
    from turnlog.services.cli.actions.session_actions import send_switch

    run_async(send_switch(target, session, profile, model, output))


def fork_session(
    session: SessionArgument,
    *,
    at: Annotated[
        int,
        typer.Option("--at", metavar="SEQUENCE", min=1, help="The last event they have in common."),
    ],
    into: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="What the fork is to be called.")
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Make a session that goes on from any place in this one, which stays as it is."""
    from turnlog.services.cli.actions.session_actions import send_fork

    run_async(send_fork(target, session, at, into, output))


def show_tool_result(
    session: SessionArgument,
    call: Annotated[
        str, typer.Argument(metavar="CALL", help="The call that asked for it: 3.2 is turn 3.")
    ],
    id: Annotated[str, typer.Argument(metavar="ID", help="What the call named its request.")],
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show the whole of what a tool gave, also where prompts hold a summary of it."""
    from turnlog.services.cli.actions.session_actions import print_tool_result

    run_with_reader(target, lambda reader: print_tool_result(reader, session, call, id, output))


def request_schemas(
    session: SessionArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Have prompts tell of the tools in full again, from the next call on, for a turn."""
    from turnlog.services.cli.actions.session_actions import send_schema_request

    run_async(send_schema_request(target, session, output))
