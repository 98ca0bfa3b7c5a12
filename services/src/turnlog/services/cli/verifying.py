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
from turnlog.projections.audit.checkpoint import AuditCheckpoint
from turnlog.services.cli.console import create_output_console, print_json, create_error_console
from turnlog.services.cli.reader.proving import VerificationLine, stream_verification
from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.screens.verify import render_log_verification, render_session_verification
from turnlog.services.cli.show import OutputFormat, print_answer
from turnlog.services.gateway.payloads.verify import VerifyFindingLine, VerifyProgressLine, VerifySummaryLine

STAGE_LABELS = {"chain": "checking the chain", "sessions": "having prompts again"}


async def print_verification(
    reader: ServiceReader, session: str | None, witness: AuditCheckpoint | None, output: OutputFormat
) -> bool:
    """Verify a session, or the whole log if None, and print the result.

    Return whether it is sound.
    """
    if session is None:
        return await _verify_log(reader, witness, output)
    return await _verify_session(reader, session, witness, output)


async def _verify_session(reader: ServiceReader, session: str, witness: AuditCheckpoint | None, output: OutputFormat) -> bool:
    noted = witness.sessions.get(session) if witness else None
    if witness and noted is None:
        detail = f"the checkpoint of {witness.at} knows no session {session}"
        fix = "verify it without, or take a checkpoint later than its first event"
        raise Refused("unknown-session", detail, field="--checkpoint", fix=fix)
    found = await reader.verify_session(session, noted)
    print_answer(found, render_session_verification(found), output)
    return found.verified


async def _verify_log(reader: ServiceReader, witness: AuditCheckpoint | None, output: OutputFormat) -> bool:
    findings: list[VerifyFindingLine] = []
    over: VerifySummaryLine | None = None
    with create_progress_bar() as bar:
        async with aclosing(stream_verification(reader, witness)) as lines:
            async for line in lines:
                over = _handle_line(line, findings, bar) or over
    if over is None:
        raise Unavailable("the service", "it said nothing")
    if output == "json":
        found: list[JsonValue] = [each.model_dump(mode="json") for each in findings]
        print_json({**over.model_dump(mode="json"), "found": found})
    else:
        create_output_console().print(render_log_verification(over, findings))
    return over.verified


def _handle_line(line: VerificationLine, findings: list[VerifyFindingLine], bar: Progress) -> VerifySummaryLine | None:
    match line:
        case VerifyProgressLine(stage=stage, done=done, goal=goal, rate=rate):
            task = bar.task_ids[-1] if bar.task_ids else bar.add_task("")
            told = f"{STAGE_LABELS[stage]}, {rate:,.0f} events/s"
            bar.update(task, description=told, completed=done, total=goal)
        case VerifyFindingLine():
            findings.append(line)
        case VerifySummaryLine():
            return line
        case _ as never:
            assert_never(never)
    return None


def create_progress_bar() -> Progress:
    """Create a progress bar on standard error that disappears at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=create_error_console(), transient=True, disable=not create_error_console().is_terminal)
