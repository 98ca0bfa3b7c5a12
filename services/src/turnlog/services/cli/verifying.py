"""Verifying sessions, one after the other, and saying so in an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from pydantic import JsonValue
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from turnlog.services.cli.console import answers, print_json, remarks
from turnlog.services.cli.reader.reader import Reader, Wanted
from turnlog.services.cli.screens.verify import report
from turnlog.services.cli.show import Form
from turnlog.services.gateway.payloads.verify import VerifyView


async def verify(reader: Reader, session: str | None, form: Form) -> bool:
    """Verify one session or all, show what came of it, and tell whether all is well."""
    sessions = [session] if session else await _all_sessions(reader)
    reports = await _reports(reader, sessions)
    if form == "json":
        found: list[JsonValue] = [each.model_dump(mode="json") for each in reports]
        print_json({"verified": all(each.verified for each in reports), "sessions": found})
    else:
        answers().print(report(reports))
    return all(each.verified for each in reports)


async def _all_sessions(reader: Reader) -> list[str]:
    """Name every session that has an event on the log; read models may have missed one."""
    found: dict[str, None] = {}
    async with aclosing(reader.events(Wanted())) as events:
        async for recorded in events:
            found[recorded.session] = None
    return list(found)


async def _reports(reader: Reader, sessions: Sequence[str]) -> list[VerifyView]:
    with progress() as bar:
        return [await reader.verify(each) for each in bar.track(sessions, description="verifying")]


def progress() -> Progress:
    """Make a bar for long work; it is gone when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=remarks(), transient=True, disable=not remarks().is_terminal)
