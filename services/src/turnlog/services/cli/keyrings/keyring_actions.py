"""What the commands on the keyring do: they read the stream KEYS and the file of the keyring."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.seals.keyrings import SealKeyring
from turnlog.services.cli.actions.log_connection import open_log_connection
from turnlog.services.cli.actions.verification import create_progress_bar
from turnlog.services.cli.console import OutputFormat, create_output_console, print_json
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.keyrings.keyring_view import (
    render_generations,
    render_retirement,
    render_rotation,
)
from turnlog.services.cli.options import LogTarget
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.process_settings import AllInOneSettings
from turnlog.services.seals.keyring_files import (
    add_generation,
    apply_directory_keyring,
    find_keyring_file,
    lock_keyring,
    read_keyring,
    remove_generations,
    require_keyring,
)
from turnlog.services.seals.keyring_generations import (
    GenerationRetirement,
    RetirementReport,
    count_records,
)


@dataclass(frozen=True, slots=True)
class RetireRequest:
    """Which generation is to end."""

    generation: int
    keeps_line: bool
    """Whether the file of the keyring stays as it is."""


async def print_generations(target: LogTarget, nats: str | None, output: OutputFormat) -> None:
    """Print the generations of the keyring and of the records."""
    settings = _read_settings(target.data_dir)
    file, keyring = find_keyring_file(settings), require_keyring(settings)
    async with open_log_connection(target, nats, "turnlog-keyring") as connection:
        counts = await count_records(connection)
    newest = await keyring.find_generation()
    # A service does not say which of its keys it has, beside the newest one.
    keys = read_keyring(file).keys.keys() if file else {newest, *counts}
    rows = {each: counts.get(each, 0) for each in sorted({*counts, *keys})}
    if output == "json":
        listed: list[JsonValue] = [
            {"generation": each, "records": rows[each], "in_keyring": each in keys} for each in rows
        ]
        print_json({"newest": newest, "generations": listed})
    else:
        create_output_console().print(render_generations(rows, keys))


def rotate_keyring_file(data_dir: Path, output: OutputFormat) -> None:
    """Add a generation to the file of the keyring, and print its number."""
    settings = _read_settings(data_dir)
    require_keyring(settings)
    file = find_keyring_file(settings)
    if file is None:
        detail = "the keyring is not a file"
        fix = "rotate the key in the service that has it: new sessions are under the new version"
        raise Refused("bad-keyring", detail, field="TURNLOG_KEYRING", fix=fix)
    with lock_keyring(file):
        generation = add_generation(file)
    if output == "json":
        print_json({"generation": generation, "file": str(file)})
    else:
        create_output_console().print(render_rotation(generation, file))


async def print_retirement(
    target: LogTarget, nats: str | None, request: RetireRequest, output: OutputFormat
) -> bool:
    """End a generation and print what became of its records; return whether none is left."""
    settings = _read_settings(target.data_dir)
    file = find_keyring_file(settings)
    with lock_keyring(file) if file else nullcontext(require_keyring(settings)) as keyring:
        async with open_log_connection(target, nats, "turnlog-keyring") as connection:
            report = await _retire_generation(connection, keyring, request, file)
        newest = await keyring.find_generation()
    if output == "json":
        unfit: list[JsonValue] = [
            {"tenant": each.tenant, "session": each.session, "reason": each.reason}
            for each in report.unfit
        ]
        print_json(
            {
                "generation": request.generation,
                "newest": newest,
                "rewrapped": report.rewrapped,
                "removed": report.removed,
                "unfit": unfit,
            }
        )
    else:
        create_output_console().print(render_retirement(request.generation, report))
    return not report.unfit


async def _retire_generation(
    connection: NatsConnection, keyring: SealKeyring, request: RetireRequest, file: Path | None
) -> RetirementReport:
    remove_lines = None
    if file and not request.keeps_line:
        removing = partial(remove_generations, file, request.generation)
        remove_lines = partial(run_in_thread, removing)
    with create_progress_bar() as bar:
        task = bar.add_task("wrapping keys again", total=None)
        retirement = GenerationRetirement(
            connection=connection,
            keyring=keyring,
            generation=request.generation,
            remove_lines=remove_lines,
            note_progress=lambda done: bar.update(task, completed=done),
        )
        return await retirement.retire_generation()


def _read_settings(data_dir: Path) -> AllInOneSettings:
    overrides = {"data_dir": data_dir, "sealing": "off"}
    settings = read_settings(AllInOneSettings, os.environ, overrides)
    return apply_directory_keyring(settings, creating=False)
