"""What-if comparisons: fetch a report from a service, then print it or write it as HTML."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue, TypeAdapter

from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.services.api.what_if_payloads import (
    BlueprintFolder,
    WhatIfFailedSession,
    WhatIfLine,
    WhatIfRequest,
    WhatIfSession,
    WhatIfStart,
    WhatIfSummary,
)
from turnlog.services.blueprints.folder_files import MAX_FILE_BYTES
from turnlog.services.cli.actions.verification import create_progress_bar
from turnlog.services.cli.client.http_responses import stream_lines
from turnlog.services.cli.client.service_reader import LONG_TIMEOUT, ServiceReader
from turnlog.services.cli.console import (
    OutputFormat,
    create_error_console,
    create_output_console,
    print_json,
)
from turnlog.services.cli.what_if.what_if_reports import render_html_page, render_what_if

_WHAT_IF_LINE: Final[TypeAdapter[WhatIfLine]] = TypeAdapter(WhatIfLine)


async def stream_what_if(reader: ServiceReader, form: WhatIfRequest) -> AsyncGenerator[WhatIfLine]:
    """Stream the lines of a report; raises `Unavailable` if the service breaks off."""
    body = form.model_dump(mode="json", exclude_none=True)
    request = reader.client.build_request("POST", "/v1/what-if", json=body, timeout=LONG_TIMEOUT)
    async with aclosing(stream_lines(reader.client, request)) as lines:
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
    reader: ServiceReader, form: WhatIfRequest, output: OutputFormat, html: Path | None
) -> None:
    """Fetch the report on a change and print it; also write it as HTML if `html` is given."""
    told = await _collect_results(reader, form)
    if html is not None:
        _write_html(told, html)
    if output == "json":
        print_json(_dump_results(told))
    else:
        create_output_console().print(
            render_what_if(told.begun, told.sessions, told.untold, told.ended)
        )


def _write_html(results: WhatIfResults, html: Path) -> None:
    html.write_text(
        render_html_page(results.begun, results.sessions, results.untold, results.ended)
    )
    create_error_console().print(f"the report is in {html}")


async def _collect_results(reader: ServiceReader, form: WhatIfRequest) -> WhatIfResults:
    begun, ended = None, None
    sessions, untold = list[WhatIfSession](), list[WhatIfFailedSession]()
    with create_progress_bar() as bar:
        task = bar.add_task("supposing", total=None)
        async with aclosing(stream_what_if(reader, form)) as lines:
            async for line in lines:
                match line:
                    case WhatIfStart():
                        begun = line
                        bar.update(task, total=line.sessions)
                    case WhatIfSession():
                        sessions.append(line)
                        bar.advance(task)
                    case WhatIfFailedSession():
                        untold.append(line)
                        bar.advance(task)
                    case WhatIfSummary():
                        ended = line
    if begun is None or ended is None:
        raise Unavailable("the service", "it broke off before the end")
    sessions.sort(key=lambda each: each.badness, reverse=True)
    return WhatIfResults(begun, tuple(sessions), tuple(untold), ended)


def _dump_results(results: WhatIfResults) -> JsonValue:
    sessions: list[JsonValue] = [each.model_dump(mode="json") for each in results.sessions]
    untold: list[JsonValue] = [each.model_dump(mode="json") for each in results.untold]
    return {
        **results.begun.model_dump(mode="json", exclude={"line", "sessions"}),
        "total": results.ended.model_dump(mode="json", exclude={"line"}),
        "sessions": sessions,
        "untold": untold,
    }
