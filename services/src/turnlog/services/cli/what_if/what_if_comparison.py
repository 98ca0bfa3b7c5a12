"""What-if comparisons: fetch a report from a service, print it or write it as one HTML page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue, TypeAdapter

from turnlog.client import ClientOperation
from turnlog.client.operations import format_query
from turnlog.contract import api_paths
from turnlog.contract.prompt_requests import BlueprintFolder, WhatIfRequest
from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.services.api.what_if_payloads import (
    WhatIfFailedSession,
    WhatIfLine,
    WhatIfSession,
    WhatIfStart,
    WhatIfSummary,
)
from turnlog.services.blueprints.folder_files import MAX_FILE_BYTES
from turnlog.services.cli.actions.verification import create_progress_bar
from turnlog.services.cli.client.service_client import LONG_TIMEOUT_SECONDS, ServiceClient
from turnlog.services.cli.console import (
    OutputFormat,
    create_error_console,
    create_output_console,
    print_json,
)
from turnlog.services.cli.what_if.what_if_page import render_html_page
from turnlog.services.cli.what_if.what_if_view import render_what_if

_WHAT_IF_LINE: Final[TypeAdapter[WhatIfLine]] = TypeAdapter(WhatIfLine)


async def stream_what_if(
    service: ServiceClient, form: WhatIfRequest, query: Mapping[str, object]
) -> AsyncGenerator[WhatIfLine]:
    """Stream the lines of a report on the sessions of the form, or on those of a query.

    Raises `Unavailable` if the service breaks off.
    """
    operation = ClientOperation(
        method="POST",
        path=api_paths.WHAT_IF,
        answer=object,
        body=form.model_dump(mode="json", exclude_none=True),
        query=format_query(query),
        timeout=LONG_TIMEOUT_SECONDS,
    )
    async with aclosing(service.stream_lines(operation)) as lines:
        async for line in lines:
            yield _WHAT_IF_LINE.validate_json(line)


def read_blueprint_folder(folder: Path) -> BlueprintFolder:
    """Read all texts of a blueprint folder; raises `Refused` if there is no blueprint in it."""
    folder = folder.resolve()
    if not (folder / BLUEPRINT_FILE).is_file():
        detail = f"there is no {BLUEPRINT_FILE} in {folder}"
        raise Refused("unknown-blueprint", detail, field="--blueprint", fix="name its folder")
    return BlueprintFolder(blueprint=folder.name, files=dict(_read_texts(folder)))


def _read_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield texts by path; hidden files, binary files and links out of the folder are skipped."""
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder)
        if any(step.startswith(".") for step in place.parts) or not _is_included(file, folder):
            continue
        try:
            yield place.as_posix(), file.read_bytes().decode()
        except UnicodeDecodeError:
            continue


def _is_included(file: Path, folder: Path) -> bool:
    inside = file.resolve().is_relative_to(folder)
    return inside and file.is_file() and file.stat().st_size <= MAX_FILE_BYTES


@dataclass(frozen=True, slots=True)
class WhatIfResults:
    """All lines of a what-if report."""

    begun: WhatIfStart
    sessions: tuple[WhatIfSession, ...]
    """Ordered by badness, the worst first."""
    untold: tuple[WhatIfFailedSession, ...]
    ended: WhatIfSummary


async def print_what_if(
    service: ServiceClient,
    form: WhatIfRequest,
    query: Mapping[str, object],
    output: OutputFormat,
    html: Path | None,
) -> None:
    """Fetch the report on a change and print it; also write it as HTML if `html` is given."""
    results = await _collect_results(service, form, query)
    if html is not None:
        _write_html(results, html)
    if output == "json":
        print_json(_dump_results(results))
    else:
        create_output_console().print(
            render_what_if(results.begun, results.sessions, results.untold, results.ended)
        )


def _write_html(results: WhatIfResults, html: Path) -> None:
    html.write_text(
        render_html_page(results.begun, results.sessions, results.untold, results.ended)
    )
    create_error_console().print(f"the report is in {html}")


async def _collect_results(
    service: ServiceClient, form: WhatIfRequest, query: Mapping[str, object]
) -> WhatIfResults:
    begun, ended = None, None
    sessions, failed = list[WhatIfSession](), list[WhatIfFailedSession]()
    with create_progress_bar() as bar:
        task = bar.add_task("supposing", total=None)
        async with aclosing(stream_what_if(service, form, query)) as lines:
            async for line in lines:
                match line:
                    case WhatIfStart():
                        begun = line
                        bar.update(task, total=line.sessions)
                    case WhatIfSession():
                        sessions.append(line)
                        bar.advance(task)
                    case WhatIfFailedSession():
                        failed.append(line)
                        bar.advance(task)
                    case WhatIfSummary():
                        ended = line
    if begun is None or ended is None:
        raise Unavailable("the service", "it broke off before the end")
    sessions.sort(key=lambda each: each.badness, reverse=True)
    return WhatIfResults(begun, tuple(sessions), tuple(failed), ended)


def _dump_results(results: WhatIfResults) -> JsonValue:
    sessions: list[JsonValue] = [each.model_dump(mode="json") for each in results.sessions]
    failed: list[JsonValue] = [each.model_dump(mode="json") for each in results.untold]
    return {
        **results.begun.model_dump(mode="json", exclude={"line", "sessions"}),
        "total": results.ended.model_dump(mode="json", exclude={"line"}),
        "sessions": sessions,
        "untold": failed,
    }
