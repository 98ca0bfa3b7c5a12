from __future__ import annotations

from turnlog.services.cli.options import Served
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.versions import moved_line, pin_table
from turnlog.services.cli.sending import sent
from turnlog.services.cli.show import Form, shown
from turnlog.services.gateway.payloads.moving import Moved


async def show_pins(reader: Reader, blueprint: str | None, form: Form) -> None:
    """Print the versions that open sessions are pinned to."""
    found = await reader.pins(blueprint)
    shown(found, pin_table(found), form)


async def move(served: Served, session: str, digest: str | None, form: Form) -> None:
    """Move a session to the current files of its blueprint."""
    path = f"/v1/sessions/{session}/blueprint"
    done = await sent(served, "POST", path, {"digest": digest}, Moved)
    shown(done, moved_line(done), form)
