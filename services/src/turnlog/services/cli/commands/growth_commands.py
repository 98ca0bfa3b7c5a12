"""Commands that sum over calls: the growth of prompts, and what the caches of providers lost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer

from turnlog.contract import api_paths
from turnlog.services.cli.command_runner import run_with_service, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget

_SessionOrAll = Annotated[
    str | None, typer.Argument(metavar="SESSION", help="One session; all by default.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """Which calls are meant, as the query parameters of `GET /v1/growth` say."""

    blueprint: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only calls of this blueprint.")
    ] = None
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only calls of this profile.")
    ] = None
    kind: Annotated[str | None, typer.Option(metavar="NAME", help="Only calls of this kind.")] = (
        None
    )
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Only calls to this model.")] = (
        None
    )
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only calls made at or after this time.")
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only calls made before this time.")
    ] = None


def show_growth(
    session: _SessionOrAll = None,
    *,
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by",
            metavar="NAME[,NAME]",
            help="Group calls by session, blueprint, version, profile, kind or model, or by two.",
        ),
    ] = None,
    bucket: Annotated[
        Literal["day", "hour"] | None,
        typer.Option(help="Group calls by their time (UTC) as well."),
    ] = None,
    filters: CallOptions,
    target: ReadTarget,
    output: Annotated[
        Literal["table", "json", "csv"],
        typer.Option(
            "-o", "--output", help="Tables for people, JSON for programs, CSV for spreadsheets."
        ),
    ] = "table",
) -> None:
    """Show the growth of prompts: tokens by component and call, trimmed and saved tokens."""
    from turnlog.client.operations import build_read
    from turnlog.contract.call_payloads import GrowthView
    from turnlog.services.cli.views.growth_csv import print_growth_csv
    from turnlog.services.cli.views.growth_view import render_growth

    query = {"session": session, "group_by": group_by, "bucket": bucket, **asdict(filters)}
    read = build_read(api_paths.GROWTH, GrowthView, query)
    if output == "csv":
        run_with_service(
            target, lambda service: print_growth_csv(service, read), with_read_models=True
        )
    else:
        show_answer(target, read, render_growth, output, with_read_models=True)


def list_cache_breaks(
    session: _SessionOrAll = None,
    *,
    filters: CallOptions,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Most causes to list.")] = 10,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """List why prompts were not read from providers' caches, and what each cause cost."""
    from turnlog.client.operations import build_read
    from turnlog.contract.call_payloads import CacheBreakList
    from turnlog.services.cli.views.cache_view import render_cache_breaks

    query = {"session": session, "limit": limit, **asdict(filters)}
    show_answer(
        target,
        build_read(api_paths.CACHE_BREAKS, CacheBreakList, query),
        render_cache_breaks,
        output,
        with_read_models=True,
    )
