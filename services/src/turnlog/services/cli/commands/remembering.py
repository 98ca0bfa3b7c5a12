"""Commands on a session's memory: messages, references, summaries and purges."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.late import run_with_reader
from turnlog.services.cli.options import ReadTarget, OutputOption, SessionArgument

EntityOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="What kind of thing the turn would be about.")
]


def show_memory(
    session: SessionArgument,
    *,
    reader: Annotated[
        Literal["planner", "narrator"] | None, typer.Option(help="Who would be told; else anybody.")
    ] = None,
    entity: EntityOption = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show what the next turn would be told of earlier ones."""
    from turnlog.services.cli.remembering import print_memory

    run_with_reader(target, lambda found: print_memory(found, session, reader, entity, output))


def show_references(
    session: SessionArgument,
    *,
    intent: Annotated[
        str | None, typer.Option(metavar="NAME", help="What would be wanted; resolves.")
    ] = None,
    entity: EntityOption = None,
    identifier: Annotated[
        list[str] | None,
        typer.Option("-i", "--identifier", metavar="NAME=VALUE", help="What it would say itself."),
    ] = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show what was spoken of last; with --intent, what a turn would mean by it."""
    from turnlog.services.cli.given import parse_pairs
    from turnlog.services.cli.remembering import print_resolved_reference, print_references

    if intent is None:
        run_with_reader(target, lambda found: print_references(found, session, output))
        return
    said = parse_pairs(identifier or (), "--identifier")
    run_with_reader(target, lambda found: print_resolved_reference(found, session, intent, entity, said, output))
