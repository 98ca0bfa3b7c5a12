from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.services.cli.screens.palette import GOOD, QUIET, WARY
from turnlog.services.cli.screens.sessions import listing
from turnlog.services.cli.screens.spelling import harmless, short
from turnlog.services.gateway.payloads.moving import Moved, PinList, PinView


def pin_table(found: PinList) -> RenderableType:
    """List pins and how to find the sessions of one."""
    if not found.pins:
        return Text("no session is open", QUIET)
    table = listing()
    table.add_column("blueprint", no_wrap=True)
    table.add_column("pinned", overflow="fold")
    table.add_column("digest", no_wrap=True)
    table.add_column("sessions", justify="right")
    table.add_column("files say", no_wrap=True)
    for pin in found.pins:
        number = f"{pin.sessions:,}"
        table.add_row(pin.blueprint, _what(pin), short(pin.digest), number, _current(pin))
    hint = "whose they are: turnlog sessions --open --digest DIGEST, as -o json spells it"
    return Group(table, Text(f"\n{hint}", QUIET))


def _what(pin: PinView) -> Text:
    if pin.what == "blueprint":
        return Text(f"version {pin.version}")
    if pin.layer is None:
        return Text("memory policy" if pin.what == "memory" else pin.what)
    where = f"  {harmless(pin.path or '')} for {harmless(pin.provider or '')}"
    return Text(f"prompt {harmless(pin.layer)}").append(where, QUIET)


def _current(pin: PinView) -> Text:
    match pin.current:
        case True:
            return Text("the same", GOOD)
        case False:
            return Text("otherwise", WARY)
        case None:
            return Text("it depends", QUIET)


def moved_line(done: Moved) -> Text:
    """Render the version that a session runs by after a move."""
    version = f"{done.blueprint} v{done.version}"
    if not done.moved:
        return Text(f"{done.session} runs by {version} already", QUIET)
    line = Text("✓ ", GOOD).append(f"{done.session} goes on by {version}", "default")
    return line.append(f"  {short(done.digest)} · event {done.sequence}", QUIET)
