"""The command that talks to a session in the terminal."""

from __future__ import annotations

from pathlib import Path
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
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="Title of a new session.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="LABEL", help="Label of a new session; may be repeated."),
    ] = None,
    attach: Annotated[
        list[Path] | None,
        typer.Option(
            "--attach",
            metavar="FILE",
            help="Picture, recording or file to send with the first turn; may be repeated.",
        ),
    ] = None,
    reasoning: Annotated[
        bool, typer.Option("--reasoning", help="Show what the model reasons before it replies.")
    ] = False,
    target: ServiceTarget,
) -> None:
    """Talk to a session; Ctrl-C cancels the turn, Ctrl-D leaves."""
    from turnlog.services.cli.conversation.chat_terminal import SessionChoice, run_chat

    opening = SessionChoice(blueprint, attribute or [], title=title, labels=label)
    run_chat(target, session, opening, attach or [], has_reasoning=reasoning)
