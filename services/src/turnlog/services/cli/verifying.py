"""Verification of a session, a whole log or a bundle.

A bundle is checked by the verifier of this release, never by the one inside it: whoever alters a
bundle can alter that file too.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import assert_never

from pydantic import JsonValue
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.audit.checkpoint import Checkpoint
from turnlog.services.cli.console import answers, print_json, remarks
from turnlog.services.cli.reader.proving import Line, verified
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.verify import log_report, report
from turnlog.services.cli.show import Form, shown
from turnlog.services.gateway.payloads.verify import FindingLine, ProgressLine, SummaryLine

STAGES = {"chain": "checking the chain", "sessions": "having prompts again"}


async def verify(
    reader: Reader, session: str | None, witness: Checkpoint | None, form: Form
) -> bool:
    """Verify a session, or the whole log if None, and print the result.

    Return whether it is sound.
    """
    if session is None:
        return await _everything(reader, witness, form)
    return await _session(reader, session, witness, form)


async def _session(reader: Reader, session: str, witness: Checkpoint | None, form: Form) -> bool:
    noted = witness.sessions.get(session) if witness else None
    if witness and noted is None:
        detail = f"the checkpoint of {witness.at} knows no session {session}"
        fix = "verify it without, or take a checkpoint later than its first event"
        raise Refused("unknown-session", detail, field="--checkpoint", fix=fix)
    found = await reader.verify(session, noted)
    shown(found, report(found), form)
    return found.verified


async def _everything(reader: Reader, witness: Checkpoint | None, form: Form) -> bool:
    findings: list[FindingLine] = []
    over: SummaryLine | None = None
    with progress() as bar:
        async with aclosing(verified(reader, witness)) as lines:
            async for line in lines:
                over = _taken(line, findings, bar) or over
    if over is None:
        raise Unavailable("the service", "it said nothing")
    if form == "json":
        found: list[JsonValue] = [each.model_dump(mode="json") for each in findings]
        print_json({**over.model_dump(mode="json"), "found": found})
    else:
        answers().print(log_report(over, findings))
    return over.verified


def _taken(line: Line, findings: list[FindingLine], bar: Progress) -> SummaryLine | None:
    match line:
        case ProgressLine(stage=stage, done=done, goal=goal, rate=rate):
            task = bar.task_ids[-1] if bar.task_ids else bar.add_task("")
            told = f"{STAGES[stage]}, {rate:,.0f} events/s"
            bar.update(task, description=told, completed=done, total=goal)
        case FindingLine():
            findings.append(line)
        case SummaryLine():
            return line
        case _ as never:
            assert_never(never)
    return None


def progress() -> Progress:
    """Create a progress bar on standard error that disappears at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=remarks(), transient=True, disable=not remarks().is_terminal)
