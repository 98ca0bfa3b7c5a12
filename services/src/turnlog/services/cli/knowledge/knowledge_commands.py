"""Commands on knowledge: collections of cases and documents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnlog.services.cli.command_runner import run_async, show_answer
from turnlog.services.cli.options import OutputOption, PruneOptions, ReadTarget, ServiceTarget

if TYPE_CHECKING:
    from pydantic import JsonValue

CollectionArgument = Annotated[
    str, typer.Argument(metavar="COLLECTION", help="The name of the collection.")
]

KindOption = Annotated[
    Literal["case", "document"],
    typer.Option("--kind", help="A case to be adapted, or a part of a document."),
]


@dataclass(frozen=True, slots=True)
class EntryOptions:
    """Properties of an entry."""

    kind: KindOption = "document"
    title: Annotated[
        str, typer.Option("--title", metavar="TITLE", help="What it is about, such as a question.")
    ] = ""
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; may be repeated.")
    ] = None
    efficiency: Annotated[
        float | None,
        typer.Option("--efficiency", metavar="SHARE", help="How efficient a case was, 0 to 1."),
    ] = None


def list_knowledge(
    collection: Annotated[
        str | None,
        typer.Argument(metavar="[COLLECTION]", help="List the entries of this collection."),
    ] = None,
    *,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="NUMBER", min=1, max=500, help="Most entries to list."),
    ] = 100,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ENTRY", help="Only entries after this id.")
    ] = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """List collections, or the entries of one."""
    from turnlog.client import tenant_operations
    from turnlog.services.cli.knowledge.knowledge_view import render_collections, render_entries

    if collection is None:
        show_answer(
            target,
            tenant_operations.list_collections(None),
            render_collections,
            output,
            with_read_models=True,
        )
        return
    show_answer(
        target,
        tenant_operations.list_entries(collection, after, limit, None),
        render_entries,
        output,
        with_read_models=True,
    )


def add_entry(
    collection: CollectionArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads standard input.")],
    *,
    entry: Annotated[
        str | None,
        typer.Option("--id", metavar="ENTRY", help="Its id; an existing entry is edited."),
    ] = None,
    properties: EntryOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Add an entry, or edit the one with the id."""
    from turnlog.services.cli.knowledge.knowledge_actions import send_entry

    form: dict[str, JsonValue] = {
        "text": text,
        "kind": properties.kind,
        "title": properties.title,
        "tags": [*(properties.tag or ())],
        "efficiency": properties.efficiency,
    }
    run_async(
        send_entry(target=target, collection=collection, entry=entry, fields=form, output=output)
    )


def remove_knowledge(
    collection: CollectionArgument,
    entries: Annotated[
        list[str] | None, typer.Argument(metavar="[ENTRY...]", help="Ids of entries.")
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Remove the collection with all its entries.")
    ] = False,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Remove entries, or a collection; no later turn retrieves them."""
    from turnlog.events.errors import Refused
    from turnlog.services.cli.knowledge.knowledge_actions import send_removal

    if bool(entries) == everything:
        detail = "name entries, or --all for the whole collection"
        raise Refused("bad-option", detail, field="ENTRY", fix="give one of both")
    run_async(send_removal(target, collection, entries or (), output))


def search_knowledge(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is sought.")],
    *,
    collection: Annotated[
        list[str] | None,
        typer.Option(
            "-c", "--collection", metavar="COLLECTION", help="Search only this; may be repeated."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="NUMBER", min=1, max=24, help="Most hits.")
    ] = 10,
    min_efficiency: Annotated[
        float | None,
        typer.Option("--min-efficiency", metavar="SHARE", help="Only cases at least so efficient."),
    ] = None,
    not_negative: Annotated[
        bool, typer.Option("--not-negative", help="No entries with more negative votes.")
    ] = False,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Search collections, with the scores of every hit."""
    from turnlog.services.cli.knowledge.knowledge_actions import send_search

    form: dict[str, JsonValue] = {
        "text": text,
        "collections": [*(collection or ())],
        "limit": limit,
        "min_efficiency": min_efficiency,
        "exclude_negative": not_negative,
    }
    run_async(send_search(target, form, output))


def import_knowledge(
    collection: CollectionArgument,
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Folders, or Markdown, JSON and CSV files."),
    ],
    *,
    kind: KindOption = "document",
    pruning: PruneOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Import files into a collection; a second import edits instead of doubling.

    Each fault is shown with its file, line and a fix; nothing is imported then, and the exit code
    is 1. With --prune the collection has nothing of other files afterwards; entries that were
    added by themselves stay.
    """
    from turnlog.services.api.published_errors.error_code import ExitCode
    from turnlog.services.cli.knowledge import knowledge_actions

    pruning.check_options()
    if pruning.dry_run:
        action = knowledge_actions.preview_pruning(target, collection, paths, kind, output=output)
    else:
        action = knowledge_actions.import_knowledge(
            target, collection, paths, kind, prune=pruning.prune, output=output
        )
    if not run_async(action):
        raise typer.Exit(ExitCode.ERROR)
