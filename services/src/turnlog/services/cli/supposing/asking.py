from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from turnlog.events.errors import Unavailable
from turnlog.services.cli.console import answers, print_json, remarks
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.reader.supposing import supposed
from turnlog.services.cli.screens.what_if import what_if_screen
from turnlog.services.cli.show import Form
from turnlog.services.cli.supposing.page import page
from turnlog.services.cli.verifying import progress
from turnlog.services.gateway.payloads.what_if import (
    Begun,
    Ended,
    SessionSupposed,
    SessionUntold,
    WhatIfForm,
)


@dataclass(frozen=True, slots=True)
class Told:
    """All lines of a what-if report."""

    begun: Begun
    sessions: tuple[SessionSupposed, ...]
    """Ordered by badness, the worst first."""
    untold: tuple[SessionUntold, ...]
    ended: Ended


async def ask(reader: Reader, form: WhatIfForm, output: Form, html: Path | None) -> None:
    """Fetch the report on a change and print it; also write it as HTML if `html` is given."""
    told = await _told(reader, form)
    if html is not None:
        _keep(told, html)
    if output == "json":
        print_json(_plain(told))
    else:
        answers().print(what_if_screen(told.begun, told.sessions, told.untold, told.ended))


def _keep(told: Told, html: Path) -> None:
    html.write_text(page(told.begun, told.sessions, told.untold, told.ended))
    remarks().print(f"the report is in {html}")


async def _told(reader: Reader, form: WhatIfForm) -> Told:
    begun, ended = None, None
    sessions, untold = list[SessionSupposed](), list[SessionUntold]()
    with progress() as bar:
        task = bar.add_task("supposing", total=None)
        async with aclosing(supposed(reader, form)) as lines:
            async for line in lines:
                match line:
                    case Begun():
                        begun = line
                        bar.update(task, total=line.sessions)
                    case SessionSupposed():
                        sessions.append(line)
                        bar.advance(task)
                    case SessionUntold():
                        untold.append(line)
                        bar.advance(task)
                    case Ended():
                        ended = line
    if begun is None or ended is None:
        raise Unavailable("the service", "it broke off before the end")
    sessions.sort(key=lambda each: each.badness, reverse=True)
    return Told(begun, tuple(sessions), tuple(untold), ended)


def _plain(told: Told) -> JsonValue:
    sessions: list[JsonValue] = [each.model_dump(mode="json") for each in told.sessions]
    untold: list[JsonValue] = [each.model_dump(mode="json") for each in told.untold]
    return {
        **told.begun.model_dump(mode="json", exclude={"line", "sessions"}),
        "total": told.ended.model_dump(mode="json", exclude={"line"}),
        "sessions": sessions,
        "untold": untold,
    }
