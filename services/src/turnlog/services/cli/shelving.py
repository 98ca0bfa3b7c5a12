"""Actions on the segment library; each is sent to a running service over HTTP.

Import files are read here, so that a fault is shown with its file and line whether it was found
here or by the service.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from pydantic import JsonValue
from rich.text import Text

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import Fault
from turnlog.projections.library.authored import Authored
from turnlog.services.cli.console import answers, print_json
from turnlog.services.cli.importing.files import understood
from turnlog.services.cli.importing.rows import Row
from turnlog.services.cli.options import Served
from turnlog.services.cli.screens.segments import changed_line, fault_lines, import_line
from turnlog.services.cli.sending import Given, sent
from turnlog.services.cli.show import Form
from turnlog.services.gateway.payloads.segments import SegmentChanged, SegmentsImported

_ROW: Final = re.compile(r"segments\.(\d+)(?:\.(\w+))?")
_READ: Final = "-"


async def add_one(served: Served, text: str, form: Given, output: Form) -> None:
    body = {"content": _text(text), **form}
    _show(await sent(served, "POST", "/v1/segments", body, SegmentChanged), "added", output)


async def edit_one(
    served: Served, segment: int, text: str | None, form: Given, output: Form
) -> None:
    """Change a segment's text or activate or deactivate it."""
    body = {"content": None if text is None else _text(text), **form}
    done = await sent(served, "PATCH", f"/v1/segments/{segment}", body, SegmentChanged)
    _show(done, "is as you asked", output)


async def import_all(served: Served, files: Sequence[Path], output: Form) -> bool:
    """Import all segments of these files, or none; return whether they were imported."""
    found = understood(files)
    if found.faults:
        return _told(found.faults, output)
    body: Given = {"segments": [_form(authored) for _, authored in found.segments]}
    try:
        done = await sent(served, "POST", "/v1/segments/import", body, SegmentsImported)
    except Refused as refused:
        fault = _placed(refused, [row for row, _ in found.segments])
        if fault is None:
            raise
        return _told([fault], output)
    if output == "json":
        print_json(done.model_dump(mode="json"))
    else:
        answers().print(import_line(done))
    return True


def _text(text: str) -> str:
    return sys.stdin.read() if text == _READ else text


def _form(authored: Authored) -> dict[str, JsonValue]:
    return {name: value for name, value in asdict(authored).items() if value is not None}


def _placed(refused: Refused, rows: Sequence[Row]) -> Fault | None:
    """Return the service's refusal as a fault with file and line, or None if it names no row."""
    match = _ROW.match(refused.field or "")
    if match is None or int(match[1]) >= len(rows):
        return None
    return rows[int(match[1])].fault(match[2] or "", refused.detail, refused.fix)


def _told(faults: Sequence[Fault], output: Form) -> bool:
    if output == "json":
        print_json([asdict(fault) for fault in faults])
    else:
        answers().print(fault_lines(faults))
    return False


def _show(done: SegmentChanged, what: str, output: Form) -> None:
    if output == "json":
        print_json(done.model_dump(mode="json"))
    else:
        answers().print(Text.assemble(changed_line(done), f" {what}"))
