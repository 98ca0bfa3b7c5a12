# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.commands.late import reading, running
from turnlog.services.cli.options import Asked, Output, Served, Session


def tool(
    session: Session,
    call: Annotated[
        str, typer.Argument(metavar="CALL", help="The call that asked for it: 3.2 is turn 3.")
    ],
    id: Annotated[str, typer.Argument(metavar="ID", help="What the call named its request.")],
    *,
    asked: Asked,
    output: Output = "table",
) -> None:
    """Show the whole of what a tool gave, also where prompts hold a summary of it."""
    from turnlog.services.cli.tooling import show_result

    reading(asked, lambda reader: show_result(reader, session, call, id, output))


def schemas(session: Session, *, served: Served, output: Output = "table") -> None:
    """Have prompts tell of the tools in full again, from the next call on, for a turn."""
    from turnlog.services.cli.tooling import request_schemas

    running(request_schemas(served, session, output))
