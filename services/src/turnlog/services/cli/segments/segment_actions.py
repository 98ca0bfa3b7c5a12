"""Actions on the segment library; each is sent to a running service over HTTP.

Import files are read here, so that a fault is shown with its file and line whether it was found
here or by the service.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from pydantic import JsonValue
from rich.text import Text

from turnlog.client import ClientOperation
from turnlog.client.operations import build_command, build_read
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    FaultyBlueprint,
)
from turnlog.projections.library.segment_inputs import SegmentInput
from turnlog.services.api.segment_payloads import (
    SegmentChangeResult,
    SegmentImportResult,
    SegmentPage,
)
from turnlog.services.cli.client.row_waiting import send_listed_command, wait_for_rows
from turnlog.services.cli.client.service_client import ServiceClient, create_running_client
from turnlog.services.cli.client.service_location import require_service
from turnlog.services.cli.console import OutputFormat, create_output_console, print_json
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.segments import import_rows
from turnlog.services.cli.segments.import_rows import ImportedSegmentRow, ParsedSegments
from turnlog.services.cli.segments.segment_pruning import (
    dump_gone_segments,
    list_gone_segments,
    mark_segments_inactive,
    render_gone_segments,
)
from turnlog.services.cli.segments.segment_view import (
    render_import,
    render_segment_change,
)
from turnlog.services.cli.views.import_faults import print_import_faults

CommandBody = Mapping[str, JsonValue]

RowParser = Callable[[str, str], Iterator[ImportedSegmentRow]]


def _read_sql_rows(text: str, file: str) -> Iterator[ImportedSegmentRow]:
    """Read an SQL dump, or refuse it where sqlglot is not installed."""
    try:
        from turnlog.services.cli.segments.sql_dumps import (  # noqa: PLC0415 - imports sqlglot
            read_sql_rows,
        )
    except ImportError:
        detail, fix = f"{file}: an SQL dump needs sqlglot", "pip install 'turnlog-services[sql]'"
        raise Refused("not-installed", detail, field="FILE", fix=fix) from None
    return read_sql_rows(text, file)


ROW_PARSERS: Final[Mapping[str, RowParser]] = {
    ".yaml": import_rows.read_yaml_rows,
    ".yml": import_rows.read_yaml_rows,
    ".csv": import_rows.read_csv_rows,
    ".sql": _read_sql_rows,
}


def read_segment_files(files: Sequence[Path]) -> ParsedSegments:
    """Read all files and collect the faults of all of them."""
    found = ParsedSegments()
    for file in files:
        try:
            for row in _choose_parser(file)(_decode_file(file), str(file)):
                found.add_row(row)
        except FaultyBlueprint as faulty:
            found.faults += faulty.faults
    return found


def _choose_parser(file: Path) -> RowParser:
    form = ROW_PARSERS.get(file.suffix.lower())
    if form is None:
        detail = f"{file}: {file.suffix or 'a file without a suffix'} is not a known format"
        raise Refused(
            "bad-option", detail, field="FILE", fix=f"give one of {', '.join(ROW_PARSERS)}"
        )
    return form


def _decode_file(file: Path) -> str:
    stored = file.read_bytes()
    try:
        return stored.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = stored.count(b"\n", 0, error.start) + 1
        fault = BlueprintFault(
            file=str(file),
            line=line,
            path="",
            what=f"byte {error.start} is not UTF-8",
            fix="save it as UTF-8",
        )
        raise FaultyBlueprint([fault]) from None


_ROW_FIELD: Final = re.compile(r"segments\.(\d+)(?:\.(\w+))?")

_READ_STDIN: Final = "-"


async def send_new_segment(
    target: ServiceTarget, text: str, fields: CommandBody, output: OutputFormat
) -> None:
    body = {"content": _read_text(text), **fields}
    command = build_command(api_paths.SEGMENTS, body, SegmentChangeResult)
    _print_change(await send_listed_command(target, command, _build_row_read), "added", output)


async def send_segment_edit(
    target: ServiceTarget, segment: int, text: str | None, fields: CommandBody, output: OutputFormat
) -> None:
    """Change a segment's text or activate or deactivate it."""
    body = {"content": None if text is None else _read_text(text), **fields}
    path = format_path(api_paths.SEGMENT, segment=segment)
    command = build_command(path, body, SegmentChangeResult, "PATCH")
    done = await send_listed_command(target, command, _build_row_read)
    _print_change(done, "is as you asked", output)


async def import_segment_files(
    target: ServiceTarget, files: Sequence[Path], *, prune: bool, output: OutputFormat
) -> bool:
    """Import all segments of these files, or none; return whether they were imported.

    To prune is to switch off then what the files do not have.
    """
    try:
        found = _read_files(files)
        async with create_running_client(require_service(target)) as service:
            done = await _send_import(service, found)
            gone = await list_gone_segments(service, found.inputs, done.sequence) if prune else []
            sequence = await mark_segments_inactive(service, gone) or done.sequence
            await wait_for_rows(service, _build_row_read, sequence)
    except FaultyBlueprint as faulty:
        print_import_faults(faulty.faults, output)
        return False
    if output == "json":
        deactivated = {"deactivated": dump_gone_segments(gone)} if prune else {}
        print_json(done.model_dump(mode="json") | deactivated)
    else:
        create_output_console().print(render_import(done, len(gone)))
    return True


async def preview_pruning(
    target: ServiceTarget, files: Sequence[Path], *, output: OutputFormat
) -> bool:
    """Print what an import of these files would switch off; return whether they can be imported."""
    try:
        found = _read_files(files)
    except FaultyBlueprint as faulty:
        print_import_faults(faulty.faults, output)
        return False
    async with create_running_client(require_service(target)) as service:
        gone = await list_gone_segments(service, found.inputs)
    if output == "json":
        print_json({"would_deactivate": dump_gone_segments(gone)})
    else:
        create_output_console().print(render_gone_segments(gone))
    return True


def _read_files(files: Sequence[Path]) -> ParsedSegments:
    found = read_segment_files(files)
    if found.faults:
        raise FaultyBlueprint(found.faults)
    return found


async def _send_import(service: ServiceClient, found: ParsedSegments) -> SegmentImportResult:
    """Import segments; raises `FaultyBlueprint` for a row that the service refuses."""
    body = build_import_body(found)
    try:
        return await service.send(
            build_command(api_paths.IMPORT_SEGMENTS, body, SegmentImportResult)
        )
    except Refused as refused:
        fault = _locate_fault(refused, [row for row, _ in found.segments])
        if fault is None:
            raise
        raise FaultyBlueprint([fault]) from None


def build_import_body(found: ParsedSegments) -> CommandBody:
    """Return the request that imports the segments of files."""
    return {"segments": [_build_segment_body(authored) for authored in found.inputs]}


def _build_segment_body(authored: SegmentInput) -> dict[str, JsonValue]:
    return {name: value for name, value in asdict(authored).items() if value is not None}


def _build_row_read(sequence: int) -> ClientOperation[SegmentPage]:
    """Return a read of few rows."""
    query = {"limit": 1, "min_sequence": sequence}
    return build_read(api_paths.SEGMENTS, SegmentPage, query)


def _read_text(text: str) -> str:
    return sys.stdin.read() if text == _READ_STDIN else text


def _locate_fault(refused: Refused, rows: Sequence[ImportedSegmentRow]) -> BlueprintFault | None:
    """Return the service's refusal as a fault with file and line, or None if it names no row."""
    match = _ROW_FIELD.match(refused.field or "")
    if match is None or int(match[1]) >= len(rows):
        return None
    return rows[int(match[1])].build_fault(match[2] or "", refused.detail, refused.fix)


def _print_change(done: SegmentChangeResult, what: str, output: OutputFormat) -> None:
    if output == "json":
        print_json(done.model_dump(mode="json"))
    else:
        create_output_console().print(Text.assemble(render_segment_change(done), f" {what}"))
