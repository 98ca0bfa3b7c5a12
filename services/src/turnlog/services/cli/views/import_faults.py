"""What is wrong with files that were to be imported, by file and line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.projections.blueprint.validation.blueprint_faults import BlueprintFault
from turnlog.services.cli.console import OutputFormat, create_output_console, print_json
from turnlog.services.cli.views.text_format import escape_controls
from turnlog.services.cli.views.theme import BAD, MUTED


def print_import_faults(faults: Sequence[BlueprintFault], output: OutputFormat) -> None:
    """Print each fault with its place and its fix."""
    if output == "json":
        print_json([asdict(fault) for fault in faults])
    else:
        create_output_console().print(_render_faults(faults))


def _render_faults(faults: Iterable[BlueprintFault]) -> RenderableType:
    return Group(*(_render_fault(fault) for fault in faults))


def _render_fault(fault: BlueprintFault) -> Text:
    line = Text().append("✗ ", BAD).append(f"{fault.file}:{fault.line} ", "bold")
    line.append(escape_controls(f"{fault.path}: {fault.what}" if fault.path else fault.what))
    return line.append(f"\n  {fault.fix}", MUTED)
