from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from turnlog.events.errors import Unavailable
from turnlog.services.cli.console import create_output_console, print_json, create_error_console
from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.reader.supposing import stream_what_if
from turnlog.services.cli.screens.what_if import render_what_if
from turnlog.services.cli.show import OutputFormat
from turnlog.services.cli.supposing.page import render_html_page
from turnlog.services.cli.verifying import create_progress_bar
from turnlog.services.gateway.payloads.what_if import (
    WhatIfStart,
    WhatIfSummary,
    WhatIfSession,
    WhatIfFailedSession,
    WhatIfRequest,
)


@dataclass(frozen=True, slots=True)
class WhatIfResults:
    """All lines of a what-if report."""

    begun: WhatIfStart
    sessions: tuple[WhatIfSession, ...]
    """Ordered by badness, the worst first."""
    untold: tuple[WhatIfFailedSession, ...]
    ended: WhatIfSummary


async def print_what_if(reader: ServiceReader, form: WhatIfRequest, output: OutputFormat, html: Path | None) -> None:
    """Fetch the report on a change and print it; also write it as HTML if `html` is given."""
    told = await _collect_results(reader, form)
    if html is not None:
        _write_html(told, html)
    if output == "json":
        print_json(_dump_results(told))
    else:
        create_output_console().print(render_what_if(told.begun, told.sessions, told.untold, told.ended))


def _write_html(results: WhatIfResults, html: Path) -> None:
    html.write_text(render_html_page(results.begun, results.sessions, results.untold, results.ended))
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
