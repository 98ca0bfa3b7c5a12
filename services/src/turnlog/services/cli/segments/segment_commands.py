"""Commands on the segment library."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.services.cli.command_runner import run_async, show_answer
from turnlog.services.cli.options import OutputOption, PruneOptions, ReadTarget, ServiceTarget

SegmentArgument = Annotated[
    int, typer.Argument(metavar="SEGMENT", min=1, help="The segment's number.")
]

RefOption = Annotated[
    str | None,
    typer.Option("--ref", metavar="REF", help="Reference of the owner, such as npc.innkeeper."),
]

LocaleOption = Annotated[
    str | None, typer.Option("--locale", metavar="LOCALE", help="The locale of the text.")
]

TypeOption = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Type of the text.")]

VariantOption = Annotated[
    str | None,
    typer.Option("--variant", metavar="VARIANT", help="The variant; a new name creates one."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentListOptions:
    """Filters of `turnlog segments list`."""

    scope: Annotated[
        str | None,
        typer.Option("--scope", metavar="SCOPE", help="Scope: the part of a prompt it is for."),
    ] = None
    ref: RefOption = None
    locale: LocaleOption = None
    type: TypeOption = None
    active: Annotated[
        bool | None,
        typer.Option("--active/--inactive", help="Only active or only inactive segments."),
    ] = None
    q: Annotated[
        str | None, typer.Option("-q", "--query", metavar="TEXT", help="Words in the text.")
    ] = None
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="NUMBER", min=1, max=500, help="Maximum number of segments."
        ),
    ] = 100
    after: Annotated[
        int | None,
        typer.Option("--after", metavar="SEGMENT", help="Only segments after this number."),
    ] = None


@dataclass(frozen=True, slots=True)
class SegmentKindOptions:
    """Type, tier and priority of a segment."""

    type: TypeOption = None
    tier: Annotated[
        int | None,
        typer.Option("--tier", metavar="TIER", min=0, help="Tier needed to see the segment."),
    ] = None
    priority: Annotated[
        Literal["low", "normal", "high"] | None,
        typer.Option("--priority", help="Priority; the trim ladder removes low before high."),
    ] = None


def list_segments(
    *, filters: SegmentListOptions, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """List segments, a line for each variant."""
    from turnlog.client.operations import build_read
    from turnlog.services.api.segment_payloads import SegmentPage
    from turnlog.services.cli.segments.segment_view import render_segments

    show_answer(
        target,
        build_read(api_paths.SEGMENTS, SegmentPage, asdict(filters)),
        render_segments,
        output,
        with_read_models=True,
    )


def show_segment(
    segment: SegmentArgument, *, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """Show one segment with all its versions."""
    from turnlog.client.operations import build_read
    from turnlog.services.api.segment_payloads import SegmentView
    from turnlog.services.cli.segments.segment_view import render_segment

    operation = build_read(format_path(api_paths.SEGMENT, segment=segment), SegmentView)
    show_answer(target, operation, render_segment, output)


def add_segment(
    scope: Annotated[
        str, typer.Argument(metavar="SCOPE", help="Scope: the part of a prompt it is for.")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads standard input.")],
    *,
    ref: RefOption = None,
    locale: LocaleOption = None,
    kind: SegmentKindOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Add a segment; the library assigns its number."""
    from turnlog.services.cli.segments.segment_actions import send_new_segment

    form = {"scope": scope, "ref": ref, "locale": locale, **asdict(kind)}
    run_async(send_new_segment(target, text, form, output))


def edit_segment(
    segment: SegmentArgument,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The new text; - reads standard input.")
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
    """Change a segment's text, from the next call of any session on."""
    from turnlog.services.cli.segments.segment_actions import send_segment_edit

    form = {"variant": variant, **asdict(kind), "version": seen}
    run_async(
        send_segment_edit(target=target, segment=segment, text=text, fields=form, output=output)
    )


def mark_segment_active(
    segment: SegmentArgument,
    *,
    variant: VariantOption = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Include a segment, or one of its variants, in later calls again."""
    _set_active(active=True, segment=segment, variant=variant, target=target, output=output)


def mark_segment_inactive(
    segment: SegmentArgument,
    *,
    variant: VariantOption = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Exclude a segment, or one of its variants, from later calls."""
    _set_active(active=False, segment=segment, variant=variant, target=target, output=output)


def _set_active(
    *,
    active: bool,
    segment: int,
    variant: str | None,
    target: ServiceTarget,
    output: OutputOption,
) -> None:
    from turnlog.services.cli.segments.segment_actions import send_segment_edit

    fields = {"variant": variant, "active": active}
    run_async(
        send_segment_edit(target=target, segment=segment, text=None, fields=fields, output=output)
    )


def import_segments(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="YAML, CSV or SQL dumps of the segment table."),
    ],
    *,
    pruning: PruneOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Import segments, all or none; repeating an import changes nothing.

    Each error is shown with its file, line and a fix; the exit code is 1 if there is any. With
    --prune all other segments of the scopes that the files have are switched off.
    """
    from turnlog.services.api.published_errors.error_code import ExitCode
    from turnlog.services.cli.segments import segment_actions

    pruning.check_options()
    if pruning.dry_run:
        action = segment_actions.preview_pruning(target, files, output=output)
    else:
        action = segment_actions.import_segment_files(
            target, files, prune=pruning.prune, output=output
        )
    if not run_async(action):
        raise typer.Exit(ExitCode.ERROR)
