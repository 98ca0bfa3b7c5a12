"""What the commands on the archive do: they read NATS and the folder of the archive themselves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import JsonValue

from turnlog.events.archive.archive_index import ArchiveSummary
from turnlog.events.archive.message_archive import open_archive
from turnlog.events.errors import Refused
from turnlog.events.jetstream.jetstream_client import add_archive
from turnlog.services.api.written_durations import parse_seconds
from turnlog.services.archive.closed_sessions import ArchivePlan
from turnlog.services.archive.session_archiver import SessionArchiver, lock_archive
from turnlog.services.cli.actions.log_connection import open_log_connection
from turnlog.services.cli.actions.verification import create_progress_bar
from turnlog.services.cli.archive.archive_view import (
    render_archive,
    render_finished_move,
    render_move,
    render_plan,
)
from turnlog.services.cli.console import OutputFormat, create_output_console, print_json
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.options import LogTarget
from turnlog.services.platform.process_settings import ProcessSettings, find_directory_archive


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """Which sessions are to be moved."""

    age: str
    """Least age of a session's last event, such as `90d`."""
    is_dry_run: bool


async def print_move(
    target: LogTarget, nats: str | None, request: MoveRequest, output: OutputFormat
) -> None:
    """Move closed sessions into the archive, and print what was moved."""
    before = datetime.now(UTC) - _parse_age(request.age)
    folder = _find_folder(target.data_dir)
    # The connection first: a folder is made only where there is a log.
    async with open_log_connection(target, nats, "turnlog-archive") as connection:
        with lock_archive(folder), create_progress_bar() as bar:
            task = bar.add_task("reading sessions", total=None)
            await SessionArchiver(connection=connection, folder=folder).finish_move()
            async with add_archive(connection, folder) as reading:
                archiver = SessionArchiver(
                    connection=reading,
                    folder=folder,
                    note_progress=lambda done: bar.update(task, completed=done),
                )
                plan = await archiver.plan_move(before, target.tenant)
                bar.update(task, description="moving sessions", total=len(plan.sessions))
                if plan.sessions and not request.is_dry_run:
                    await archiver.move_sessions(plan)
    if output == "json":
        print_json(_dump_plan(plan, is_moved=not request.is_dry_run))
    else:
        render = render_plan if request.is_dry_run else render_move
        create_output_console().print(render(plan, folder))


def _parse_age(written: str) -> timedelta:
    seconds = parse_seconds(written)
    if seconds is None:
        fix = "write a number and s, m, h or d, such as 90d"
        detail = f"{written!r} is no age"
        raise Refused("bad-age", detail, field="--closed-before", fix=fix)
    return timedelta(seconds=seconds)


def _find_folder(data_dir: Path) -> Path:
    """Return the folder that roles of their own have, or that of a data directory."""
    configured = read_settings(ProcessSettings, os.environ, {"sealing": "off"}).archive
    return configured or find_directory_archive(data_dir)


def _dump_plan(plan: ArchivePlan, *, is_moved: bool) -> dict[str, JsonValue]:
    stray: list[JsonValue] = [session for _, session in plan.with_strays]
    return {
        "moved": is_moved,
        "sessions": [session for _, session in plan.sessions],
        "events": plan.events,
        "bytes": plan.size,
        "with_strays": stray,
    }


async def print_finished_move(target: LogTarget, nats: str | None) -> None:
    """Finish an interrupted run, and say whether there was one."""
    folder = _find_folder(target.data_dir)
    async with open_log_connection(target, nats, "turnlog-archive") as connection:
        with lock_archive(folder):
            archiver = SessionArchiver(connection=connection, folder=folder)
            await archiver.require_silence()
            is_finished = await archiver.finish_move()
    create_output_console().print(render_finished_move(folder, is_finished=is_finished))


def print_archive(data_dir: Path, output: OutputFormat) -> None:
    """Print what the archive has."""
    folder = _find_folder(data_dir)
    archive = open_archive(folder)
    summary = archive.summarise() if archive else ArchiveSummary(0, 0, 0)
    if archive:
        archive.close()
    if output == "json":
        print_json(
            {
                "folder": str(folder),
                "sessions": summary.sessions,
                "events": summary.events,
                "bytes": summary.size,
            }
        )
    else:
        create_output_console().print(render_archive(summary, folder))
