"""Commands about the library's segments."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.late import reading, running
from turnlog.services.cli.options import DEFAULT, HERE, Asked, DataDir, Output, Tenant, Url

Number = Annotated[int, typer.Argument(metavar="SEGMENT", min=1, help="The segment's number.")]
Scope = Annotated[
    str | None, typer.Option("--scope", metavar="SCOPE", help="What part of a prompt it is for.")
]
Ref = Annotated[
    str | None, typer.Option("--ref", metavar="REF", help="Whose it is, such as npc.innkeeper.")
]
Locale = Annotated[
    str | None, typer.Option("--locale", metavar="LOCALE", help="The locale it is written in.")
]
Type = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="What kind of text it is.")
]
Tier = Annotated[
    int | None,
    typer.Option("--tier", metavar="TIER", min=0, help="How much one must have found out."),
]
Priority = Annotated[
    Literal["low", "normal", "high"] | None,
    typer.Option("--priority", help="What goes last when room is short."),
]
Variant = Annotated[
    str | None,
    typer.Option("--variant", metavar="VARIANT", help="Which variant; a new name begins one."),
]


def listing(  # noqa: PLR0913 - one for each option
    *,
    scope: Scope = None,
    ref: Ref = None,
    locale: Locale = None,
    type: Type = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Only those that are.")
    ] = None,
    query: Annotated[
        str | None, typer.Option("-q", "--query", metavar="TEXT", help="Stands in the text.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="NUMBER", min=1, max=500, help="How many at the most.")
    ] = 100,
    after: Annotated[
        int | None, typer.Option("--after", metavar="SEGMENT", help="Those behind this one.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = HERE,
    tenant: Tenant = DEFAULT,
    output: Output = "table",
) -> None:
    """List segments, a line for each variant."""
    from turnlog.services.cli.show import show_segments

    wanted = {
        "scope": scope,
        "ref": ref,
        "locale": locale,
        "type": type,
        "active": None if active is None else str(active).lower(),
        "q": query,
        "limit": limit,
        "after": after,
    }
    asked = Asked(url, data_dir, tenant)
    reading(asked, lambda reader: show_segments(reader, wanted, output), rows=True)


def show(
    segment: Number,
    url: Url = None,
    data_dir: DataDir = HERE,
    tenant: Tenant = DEFAULT,
    output: Output = "table",
) -> None:
    """Show one segment with everything it ever said."""
    from turnlog.services.cli.show import show_segment

    asked = Asked(url, data_dir, tenant)
    reading(asked, lambda reader: show_segment(reader, segment, output))


def add(  # noqa: PLR0913 - one for each option
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help="What part of a prompt it is for.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it says; - reads it.")],
    *,
    ref: Ref = None,
    locale: Locale = None,
    type: Type = None,
    tier: Tier = None,
    priority: Priority = None,
    url: Url = None,
    data_dir: DataDir = HERE,
    output: Output = "table",
) -> None:
    """Add a segment; its number is given out."""
    from turnlog.services.cli.shelving import add_one

    form = {"scope": scope, "ref": ref, "locale": locale, "type": type}
    asked = Asked(url, data_dir, DEFAULT)
    running(add_one(asked, text, {**form, "tier": tier, "priority": priority}, output))


def edit(  # noqa: PLR0913 - one for each option
    segment: Number,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="What it says now; - reads it.")
    ] = None,
    *,
    variant: Variant = None,
    type: Type = None,
    tier: Tier = None,
    priority: Priority = None,
    seen: Annotated[
        int | None,
        typer.Option("--seen", metavar="VERSION", help="Only if this is the latest version."),
    ] = None,
    url: Url = None,
    data_dir: DataDir = HERE,
    output: Output = "table",
) -> None:
    """Change what a segment says; the next call of any session is given it."""
    from turnlog.services.cli.shelving import edit_one

    form = {"variant": variant, "type": type, "tier": tier, "priority": priority, "version": seen}
    running(edit_one(Asked(url, data_dir, DEFAULT), segment, text, form, output))


def activate(
    segment: Number,
    *,
    variant: Variant = None,
    url: Url = None,
    data_dir: DataDir = HERE,
    output: Output = "table",
) -> None:
    """Have calls given a segment again, or one of its variants."""
    from turnlog.services.cli.shelving import edit_one

    form = {"variant": variant, "active": True}
    running(edit_one(Asked(url, data_dir, DEFAULT), segment, None, form, output))


def deactivate(
    segment: Number,
    *,
    variant: Variant = None,
    url: Url = None,
    data_dir: DataDir = HERE,
    output: Output = "table",
) -> None:
    """Have calls no longer given a segment, or one of its variants."""
    from turnlog.services.cli.shelving import edit_one

    form = {"variant": variant, "active": False}
    running(edit_one(Asked(url, data_dir, DEFAULT), segment, None, form, output))


def take_in(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="YAML, CSV or SQL dumps of the segment table."),
    ],
    url: Url = None,
    data_dir: DataDir = HERE,
    output: Output = "table",
) -> None:
    """Import segments: all of them, or none; again changes nothing.

    What is wrong is told with file, line and the way out; exit code 1 where anything is.
    """
    from turnlog.services.cli.failures import Exit
    from turnlog.services.cli.shelving import import_all

    if not running(import_all(Asked(url, data_dir, DEFAULT), files, output)):
        raise typer.Exit(Exit.ERROR)
