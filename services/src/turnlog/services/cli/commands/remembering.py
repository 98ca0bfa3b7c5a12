"""Commands on a session's memory: messages, references, summaries and purges."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.late import reading
from turnlog.services.cli.options import Asked, Output, Session

Entity = Annotated[
    str | None, typer.Option(metavar="NAME", help="What kind of thing the turn would be about.")
]


def memory(
    session: Session,
    *,
    reader: Annotated[
        Literal["planner", "narrator"] | None, typer.Option(help="Who would be told; else anybody.")
    ] = None,
    entity: Entity = None,
    asked: Asked,
    output: Output = "table",
) -> None:
    """Show what the next turn would be told of earlier ones."""
    from turnlog.services.cli.remembering import show_memory

    reading(asked, lambda found: show_memory(found, session, reader, entity, output))


def references(
    session: Session,
    *,
    intent: Annotated[
        str | None, typer.Option(metavar="NAME", help="What would be wanted; resolves.")
    ] = None,
    entity: Entity = None,
    identifier: Annotated[
        list[str] | None,
        typer.Option("-i", "--identifier", metavar="NAME=VALUE", help="What it would say itself."),
    ] = None,
    asked: Asked,
    output: Output = "table",
) -> None:
    """Show what was spoken of last; with --intent, what a turn would mean by it."""
    from turnlog.services.cli.given import named
    from turnlog.services.cli.remembering import show_meant, show_references

    if intent is None:
        reading(asked, lambda found: show_references(found, session, output))
        return
    said = named(identifier or (), "--identifier")
    reading(asked, lambda found: show_meant(found, session, intent, entity, said, output))
