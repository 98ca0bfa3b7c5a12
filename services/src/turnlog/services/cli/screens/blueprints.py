"""Blueprints on a terminal: a list, their faults, pinned versions, and moves."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.projections.blueprint.faults import Fault
from turnlog.services.cli.screens.palette import BAD, GOOD, QUIET
from turnlog.services.cli.screens.sessions import listing
from turnlog.services.gateway.payloads.service import BlueprintList


def blueprint_table(found: BlueprintList) -> RenderableType:
    """List blueprints, followed by those that cannot be loaded."""
    table = listing()
    for title in ("blueprint", "profiles", "digest"):
        table.add_column(title, no_wrap=True)
    table.add_column("summary", overflow="fold")
    for each in found.blueprints:
        name = Text(each.blueprint, "bold").append(f" v{each.version}", QUIET)
        digest = Text(each.digest.removeprefix("sha256:")[:12], QUIET)
        table.add_row(name, ", ".join(each.profiles), digest, each.summary)
    faulty = [Text(f"{each.blueprint}: {each.detail}", BAD) for each in found.faulty]
    return Group(table, *faulty)


def fault_list(folder: str, faults: Iterable[Fault]) -> RenderableType:
    """Render the faults of a blueprint folder, or a confirmation that there are none."""
    held = tuple(faults)
    if not held:
        return Text("✓ ", GOOD).append(f"{folder} can be used", "default")
    return Group(*(_fault(fault) for fault in held))


def _fault(fault: Fault) -> Text:
    line = Text().append("✗ ", BAD).append(f"{fault.file}:{fault.line} ", "bold")
    line.append(f"{fault.path}: " if fault.path else "")
    return line.append(fault.what).append(f"\n  {fault.fix}", QUIET)
