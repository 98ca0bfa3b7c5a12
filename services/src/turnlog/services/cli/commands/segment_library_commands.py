"""Commands on the segment library."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.command_runner import run_async, run_with_reader
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget

SegmentArgument = Annotated[
    int, typer.Argument(metavar="SEGMENT", min=1, help="The segment's number.")
]

RefOption = Annotated[
    str | None, typer.Option("--ref", metavar="REF", help="Whose it is, such as npc.innkeeper.")
]

LocaleOption = Annotated[
    str | None, typer.Option("--locale", metavar="LOCALE", help="The locale it is written in.")
]

TypeOption = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="What kind of text it is.")
]

VariantOption = Annotated[
    str | None,
    typer.Option("--variant", metavar="VARIANT", help="Which variant; a new name begins one."),
]


@dataclass(frozen=True, slots=True)
class SegmentListOptions:
    """Filters of `turnlog segments list`."""

    scope: Annotated[
        str | None,
        typer.Option("--scope", metavar="SCOPE", help="What part of a prompt it is for."),
    ] = None
    ref: RefOption = None
    locale: LocaleOption = None
    type: TypeOption = None
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
class SegmentKindOptions:
    """Type, tier and priority of a segment."""

    type: TypeOption = None
    tier: Annotated[
        int | None,
        typer.Option("--tier", metavar="TIER", min=0, help="How much one must have found out."),
    ] = None
    priority: Annotated[
        Literal["low", "normal", "high"] | None,
        typer.Option("--priority", help="What goes last when room is short."),
    ] = None


def list_segments(
    *, filters: SegmentListOptions, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """List segments, a line for each variant."""
    from turnlog.services.cli.actions.query_actions import print_segments

    run_with_reader(
        target,
        lambda reader: print_segments(reader, asdict(filters), output),
        with_read_models=True,
    )


def show_segment(
    segment: SegmentArgument, *, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """Show one segment with everything it ever said."""
    from turnlog.services.cli.actions.query_actions import print_segment

    run_with_reader(target, lambda reader: print_segment(reader, segment, output))


def add_segment(
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help="What part of a prompt it is for.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it says; - reads it.")],
    *,
    ref: RefOption = None,
    locale: LocaleOption = None,
    kind: SegmentKindOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Add a segment; its number is given out."""
    from turnlog.services.cli.actions.segment_actions import send_new_segment

    form = {"scope": scope, "ref": ref, "locale": locale, **asdict(kind)}
    run_async(send_new_segment(target, text, form, output))


def edit_segment(
    segment: SegmentArgument,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="What it says now; - reads it.")
    ] = None,
    *,
    variant: VariantOption = None,
    kind: SegmentKindOptions,
    seen: Annotated[
        int | None,
        typer.Option("--seen", metavar="VERSION", help="Only if this is the latest version."),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Change what a segment says; the next call of any session is given it."""
    from turnlog.services.cli.actions.segment_actions import send_segment_edit

    form = {"variant": variant, **asdict(kind), "version": seen}
    run_async(send_segment_edit(target, segment, text, form, output))


def mark_segment_active(
    segment: SegmentArgument,
    *,
    variant: VariantOption = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Have calls given a segment again, or one of its variants."""
    from turnlog.services.cli.actions.segment_actions import send_segment_edit

    run_async(
        send_segment_edit(target, segment, None, {"variant": variant, "active": True}, output)
    )


def mark_segment_inactive(
    segment: SegmentArgument,
    *,
    variant: VariantOption = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Have calls no longer given a segment, or one of its variants."""
    from turnlog.services.cli.actions.segment_actions import send_segment_edit

    run_async(
        send_segment_edit(target, segment, None, {"variant": variant, "active": False}, output)
    )


def import_segments(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="YAML, CSV or SQL dumps of the segment table."),
    ],
    *,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Import segments: all of them, or none; again changes nothing.

    What is wrong is told with file, line and the way out; exit code 1 where anything is.
    """
    from turnlog.services.cli.actions.segment_actions import import_segment_files
    from turnlog.services.cli.error_display import ExitCode

    if not run_async(import_segment_files(target, files, output)):
        raise typer.Exit(ExitCode.ERROR)
