"""Commands on a session's memory: messages, references, summaries and purges."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.services.cli.command_runner import run_async, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget, SessionArgument

EntityOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Entity type that the turn refers to.")
]


def show_memory(
    session: SessionArgument,
    *,
    reader: Annotated[
        Literal["planner", "narrator"] | None,
        typer.Option(help="Show the memory of this reader only."),
    ] = None,
    entity: EntityOption = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show the messages that the session's memory policy allows prompts; without one, all.

    What the next prompt really includes, and what its views and summaries leave out, is shown by
    `turnlog window`.
    """
    from turnlog.client.operations import build_read
    from turnlog.services.api.memory_view_payloads import MemoryView
    from turnlog.services.cli.actions.memory_actions import render_memory

    query = {"reader": reader, "entity": entity}
    operation = build_read(format_path(api_paths.MEMORY, session=session), MemoryView, query)
    show_answer(target, operation, render_memory, output)


def show_references(
    session: SessionArgument,
    *,
    intent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Intent of a turn; resolves its references.")
    ] = None,
    entity: EntityOption = None,
    identifier: Annotated[
        list[str] | None,
        typer.Option(
            "-i",
            "--identifier",
            metavar="NAME=VALUE",
            help="An identifier that the turn names itself.",
        ),
    ] = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show the latest references; with --intent, what a turn's references resolve to."""
    from turnlog.client import ClientOperation
    from turnlog.contract.memory_payloads import ResolvedReferencesView
    from turnlog.contract.session_requests import ResolveReferencesRequest
    from turnlog.services.cli.actions.memory_actions import (
        fetch_references,
        render_references,
        render_resolved_reference,
    )
    from turnlog.services.cli.key_value_args import parse_pairs

    if intent is None:
        show_answer(target, fetch_references(session), render_references, output)
        return
    request = ResolveReferencesRequest(
        intent=intent,
        entity=entity,
        identifiers=parse_pairs(identifier or (), "--identifier"),
    )
    operation = ClientOperation(
        "POST",
        format_path(api_paths.RESOLVE_REFERENCES, session=session),
        ResolvedReferencesView,
        body=request.model_dump(mode="json"),
    )
    show_answer(target, operation, render_resolved_reference, output)


def show_summaries(
    session: SessionArgument, *, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """Show the summaries that replace older turns in prompts."""
    from turnlog.client.operations import build_read
    from turnlog.contract.memory_payloads import SummariesView
    from turnlog.services.cli.actions.memory_actions import render_summaries

    operation = build_read(format_path(api_paths.SUMMARIES, session=session), SummariesView)
    show_answer(target, operation, render_summaries, output)


def undo_summary(
    session: SessionArgument,
    sequence: Annotated[
        int,
        typer.Argument(metavar="SEQUENCE", min=1, help="Sequence of the event with the summary."),
    ],
    *,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Undo a summary: windows include the original turns again."""
    from turnlog.services.cli.actions.memory_actions import send_undo

    run_async(send_undo(target, session, sequence, output))


def exclude_turn(
    session: SessionArgument,
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="Number of the turn.")],
    *,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say which summaries it would undo, and their cost."),
    ] = False,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Exclude a turn from later windows; the summaries that cover it are undone."""
    from turnlog.client import operations
    from turnlog.services.cli.actions.memory_actions import render_exclusion_preview, send_exclusion

    if not dry_run:
        run_async(send_exclusion(target, session, turn, output))
        return
    show_answer(
        ReadTarget(url=target.url, data_dir=target.data_dir),
        operations.preview_exclusion(session, turn),
        render_exclusion_preview,
        output,
    )


def restore_turn(
    session: SessionArgument,
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="Number of the turn.")],
    *,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Include an excluded turn in later windows again."""
    from turnlog.services.cli.actions.memory_actions import send_restoration

    run_async(send_restoration(target, session, turn, output))


def purge_memory(
    session: SessionArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Exclude all turns so far from later windows; the record keeps them."""
    from turnlog.services.cli.actions.memory_actions import send_purge

    run_async(send_purge(target, session, output))
