"""Blueprints on a terminal: a list, their faults, pinned versions, and moves."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.projections.blueprint.faults import BlueprintFault
from turnlog.services.cli.screens.palette import BAD, GOOD, MUTED
from turnlog.services.cli.screens.sessions import create_listing
from turnlog.services.gateway.payloads.service import BlueprintList


def render_blueprints(found: BlueprintList) -> RenderableType:
    """List blueprints, followed by those that cannot be loaded."""
    table = create_listing()
    for title in ("blueprint", "profiles", "digest"):
        table.add_column(title, no_wrap=True)
    table.add_column("summary", overflow="fold")
    for each in found.blueprints:
        name = Text(each.blueprint, "bold").append(f" v{each.version}", MUTED)
        digest = Text(each.digest.removeprefix("sha256:")[:12], MUTED)
        table.add_row(name, ", ".join(each.profiles), digest, each.summary)
    faulty = [Text(f"{each.blueprint}: {each.detail}", BAD) for each in found.faulty]
    return Group(table, *faulty)


def render_blueprint_faults(folder: str, faults: Iterable[BlueprintFault]) -> RenderableType:
    """Render the faults of a blueprint folder, or a confirmation that there are none."""
    held = tuple(faults)
    if not held:
        return Text("✓ ", GOOD).append(f"{folder} can be used", "default")
    return Group(*(_render_fault(fault) for fault in held))


def _render_fault(fault: BlueprintFault) -> Text:
    line = Text().append("✗ ", BAD).append(f"{fault.file}:{fault.line} ", "bold")
    line.append(f"{fault.path}: " if fault.path else "")
    return line.append(fault.what).append(f"\n  {fault.fix}", MUTED)
