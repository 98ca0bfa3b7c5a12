"""The command that talks to a session in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.options import ServiceTarget


def start_chat(
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="Session to resume; by default a new one."),
    ] = None,
    *,
    blueprint: Annotated[
        str, typer.Option(metavar="NAME", help="Blueprint of a new session.")
    ] = "assistant",
    attribute: Annotated[
        list[str] | None,
        typer.Option("-a", "--attribute", metavar="NAME=VALUE", help="Attribute of a new session."),
    ] = None,
    target: ServiceTarget,
) -> None:
    """Talk to a session; Ctrl-C cancels the turn, Ctrl-D leaves."""
    from turnlog.services.cli.conversation.chat_terminal import run_chat

    run_chat(target, session, blueprint, attribute or [])
