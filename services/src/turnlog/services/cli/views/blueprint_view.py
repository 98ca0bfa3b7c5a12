"""Blueprints on a terminal: a list, their faults, pinned versions, and moves."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.projections.blueprint.validation.blueprint_faults import BlueprintFault
from turnlog.services.api.service_payloads import (
    BlueprintList,
    BlueprintMoveResult,
    PinnedTextList,
    PinnedTextView,
)
from turnlog.services.cli.views.text_format import escape_controls, format_digest
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING, create_listing


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
    all_faults = tuple(faults)
    if not all_faults:
        return Text("✓ ", GOOD).append(f"{folder} can be used", "default")
    return Group(*(_render_fault(fault) for fault in all_faults))


def _render_fault(fault: BlueprintFault) -> Text:
    line = Text().append("✗ ", BAD).append(f"{fault.file}:{fault.line} ", "bold")
    line.append(f"{fault.path}: " if fault.path else "")
    return line.append(fault.what).append(f"\n  {fault.fix}", MUTED)


def render_pins(found: PinnedTextList) -> RenderableType:
    """List pins and how to find the sessions of one."""
    if not found.pins:
        return Text("no session is open", MUTED)
    table = create_listing()
    table.add_column("blueprint", no_wrap=True)
    table.add_column("pinned", overflow="fold")
    table.add_column("digest", no_wrap=True)
    table.add_column("sessions", justify="right")
    table.add_column("files say", no_wrap=True)
    for pin in found.pins:
        number = f"{pin.sessions:,}"
        table.add_row(
            pin.blueprint,
            _describe_pin(pin),
            format_digest(pin.digest),
            number,
            _render_pin_state(pin),
        )
    hint = "whose they are: turnlog sessions --open --digest DIGEST, as -o json spells it"
    return Group(table, Text(f"\n{hint}", MUTED))


def _describe_pin(pin: PinnedTextView) -> Text:
    if pin.what == "blueprint":
        return Text(f"version {pin.version}")
    if pin.layer is None:
        return Text("memory policy" if pin.what == "memory" else pin.what)
    origin = f"  {escape_controls(pin.path or '')} for {escape_controls(pin.provider or '')}"
    return Text(f"prompt {escape_controls(pin.layer)}").append(origin, MUTED)


def _render_pin_state(pin: PinnedTextView) -> Text:
    match pin.current:
        case True:
            return Text("the same", GOOD)
        case False:
            return Text("otherwise", WARNING)
        case None:
            return Text("it depends", MUTED)


def render_move(done: BlueprintMoveResult) -> Text:
    """Render the version that a session runs by after a move."""
    version = f"{done.blueprint} v{done.version}"
    if not done.moved:
        return Text(f"{done.session} already uses {version}", MUTED)
    line = Text("✓ ", GOOD).append(f"{done.session} now uses {version}", "default")
    return line.append(f"  {format_digest(done.digest)} · event {done.sequence}", MUTED)
