"""The archive on a terminal: what is in it, what would be moved, and what was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.text import Text

from turnlog.events.archive.archive_index import ArchiveSummary
from turnlog.services.archive.closed_sessions import ArchivePlan
from turnlog.services.cli.views.text_format import escape_controls, format_count
from turnlog.services.cli.views.theme import GOOD, MUTED, WARNING

MOST_LISTED: Final = 20
"""Sessions that are listed; `-o json` has all."""


def render_plan(plan: ArchivePlan, folder: Path) -> RenderableType:
    """Say what would be moved, and list the first sessions."""
    if not plan.sessions:
        return _render_nothing(plan)
    lines = [Text(f"would move {_describe_plan(plan)} to {_format_path(folder)}")]
    lines += [Text(f"  {session}", MUTED) for _, session in plan.sessions[:MOST_LISTED]]
    if len(plan.sessions) > MOST_LISTED:
        lines.append(Text(f"  and {len(plan.sessions) - MOST_LISTED:,} more", MUTED))
    return Group(*lines, *_iterate_strays(plan))


def render_move(plan: ArchivePlan, folder: Path) -> RenderableType:
    """Say what was moved, and what is to be done with it."""
    if not plan.sessions:
        return _render_nothing(plan)
    return Group(
        Text(f"moved {_describe_plan(plan)} to {_format_path(folder)}", GOOD),
        Text("the folder is part of the record now: back it up with the streams", MUTED),
        *_iterate_strays(plan),
    )


def _render_nothing(plan: ArchivePlan) -> RenderableType:
    nothing = Text("nothing to move: no session has been closed for so long")
    return Group(nothing, *_iterate_strays(plan))


def _describe_plan(plan: ArchivePlan) -> str:
    sessions = format_count(len(plan.sessions), "session")
    return f"{sessions}, {format_count(plan.events, 'event')}, {decimal(plan.size)}"


def _iterate_strays(plan: ArchivePlan) -> Iterator[Text]:
    for _, session in plan.with_strays:
        reason = "messages under its subjects are no events of it"
        yield Text(f"{session} stays: {reason}", WARNING)


def _format_path(folder: Path) -> str:
    return escape_controls(str(folder))


def render_finished_move(folder: Path, *, is_finished: bool) -> RenderableType:
    """Say whether an interrupted run was finished."""
    if is_finished:
        return Text(f"finished: what was being moved is in {_format_path(folder)}", GOOD)
    return Text("nothing to finish: no run has begun to remove")


def render_archive(summary: ArchiveSummary, folder: Path) -> RenderableType:
    """Say what the archive has."""
    if not summary.sessions:
        return Text(f"nothing is archived in {_format_path(folder)}")
    sessions, events = (
        format_count(summary.sessions, "session"),
        format_count(summary.events, "event"),
    )
    return Text(f"{sessions}, {events}, {decimal(summary.size)} in {_format_path(folder)}")
