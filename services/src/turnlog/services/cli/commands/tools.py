# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.commands.late import run_with_reader, run_async
from turnlog.services.cli.options import ReadTarget, OutputOption, ServiceTarget, SessionArgument


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
    from turnlog.services.cli.tooling import print_tool_result

    run_with_reader(target, lambda reader: print_tool_result(reader, session, call, id, output))


def request_schemas(session: SessionArgument, *, target: ServiceTarget, output: OutputOption = "table") -> None:
    """Have prompts tell of the tools in full again, from the next call on, for a turn."""
    from turnlog.services.cli.tooling import send_schema_request

    run_async(send_schema_request(target, session, output))
