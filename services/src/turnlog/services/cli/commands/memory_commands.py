"""Commands that show a session's memory: messages, references and summaries."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.services.cli.command_runner import show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, SessionArgument

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
