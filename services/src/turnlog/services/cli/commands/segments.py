"""Commands on the segment library."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.late import reading, running
from turnlog.services.cli.options import Asked, Output, Served

Number = Annotated[int, typer.Argument(metavar="SEGMENT", min=1, help="The segment's number.")]
Ref = Annotated[
    str | None, typer.Option("--ref", metavar="REF", help="Whose it is, such as npc.innkeeper.")
]
Locale = Annotated[
    str | None, typer.Option("--locale", metavar="LOCALE", help="The locale it is written in.")
]
Type = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="What kind of text it is.")
]
Variant = Annotated[
    str | None,
    typer.Option("--variant", metavar="VARIANT", help="Which variant; a new name begins one."),
]


@dataclass(frozen=True, slots=True)
class Listed:
    """Filters of `turnlog segments list`."""

    scope: Annotated[
        str | None,
        typer.Option("--scope", metavar="SCOPE", help="What part of a prompt it is for."),
    ] = None
    ref: Ref = None
    locale: Locale = None
    type: Type = None
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Only those that are.")
    ] = None
    q: Annotated[
        str | None, typer.Option("-q", "--query", metavar="TEXT", help="Stands in the text.")
    ] = None
    limit: Annotated[
        int, typer.Option("--limit", metavar="NUMBER", min=1, max=500, help="How many at the most.")
    ] = 100
    after: Annotated[
        int | None, typer.Option("--after", metavar="SEGMENT", help="Those behind this one.")
    ] = None


@dataclass(frozen=True, slots=True)
class Kind:
    """Type, tier and priority of a segment."""

    type: Type = None
    tier: Annotated[
        int | None,
        typer.Option("--tier", metavar="TIER", min=0, help="How much one must have found out."),
    ] = None
    priority: Annotated[
        Literal["low", "normal", "high"] | None,
        typer.Option("--priority", help="What goes last when room is short."),
    ] = None


def listing(*, listed: Listed, asked: Asked, output: Output = "table") -> None:
    """List segments, a line for each variant."""
    from turnlog.services.cli.show import show_segments

    reading(asked, lambda reader: show_segments(reader, asdict(listed), output), rows=True)


def show(segment: Number, *, asked: Asked, output: Output = "table") -> None:
    """Show one segment with everything it ever said."""
    from turnlog.services.cli.show import show_segment

    reading(asked, lambda reader: show_segment(reader, segment, output))


def add(
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help="What part of a prompt it is for.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it says; - reads it.")],
    *,
    ref: Ref = None,
    locale: Locale = None,
    kind: Kind,
    served: Served,
    output: Output = "table",
) -> None:
    """Add a segment; its number is given out."""
    from turnlog.services.cli.shelving import add_one

    form = {"scope": scope, "ref": ref, "locale": locale, **asdict(kind)}
    running(add_one(served, text, form, output))


def edit(
    segment: Number,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="What it says now; - reads it.")
    ] = None,
    *,
    variant: Variant = None,
    kind: Kind,
    seen: Annotated[
        int | None,
        typer.Option("--seen", metavar="VERSION", help="Only if this is the latest version."),
    ] = None,
    served: Served,
    output: Output = "table",
) -> None:
    """Change what a segment says; the next call of any session is given it."""
    from turnlog.services.cli.shelving import edit_one

    form = {"variant": variant, **asdict(kind), "version": seen}
    running(edit_one(served, segment, text, form, output))


def activate(
    segment: Number, *, variant: Variant = None, served: Served, output: Output = "table"
) -> None:
    """Have calls given a segment again, or one of its variants."""
    from turnlog.services.cli.shelving import edit_one

    running(edit_one(served, segment, None, {"variant": variant, "active": True}, output))


def deactivate(
    segment: Number, *, variant: Variant = None, served: Served, output: Output = "table"
) -> None:
    """Have calls no longer given a segment, or one of its variants."""
    from turnlog.services.cli.shelving import edit_one

    running(edit_one(served, segment, None, {"variant": variant, "active": False}, output))


def take_in(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="YAML, CSV or SQL dumps of the segment table."),
    ],
    *,
    served: Served,
    output: Output = "table",
) -> None:
    """Import segments: all of them, or none; again changes nothing.

    What is wrong is told with file, line and the way out; exit code 1 where anything is.
    """
    from turnlog.services.cli.failures import Exit
    from turnlog.services.cli.shelving import import_all

    if not running(import_all(served, files, output)):
        raise typer.Exit(Exit.ERROR)
