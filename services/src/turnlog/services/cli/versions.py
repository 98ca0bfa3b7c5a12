from __future__ import annotations

from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.screens.versions import render_move, render_pins
from turnlog.services.cli.sending import send_command
from turnlog.services.cli.show import OutputFormat, print_answer
from turnlog.services.gateway.payloads.moving import BlueprintMoveResult


async def print_pins(reader: ServiceReader, blueprint: str | None, output: OutputFormat) -> None:
    """Print the versions that open sessions are pinned to."""
    found = await reader.list_pins(blueprint)
    print_answer(found, render_pins(found), output)


async def send_blueprint_move(target: ServiceTarget, session: str, digest: str | None, output: OutputFormat) -> None:
    """Move a session to the current files of its blueprint."""
    path = f"/v1/sessions/{session}/blueprint"
    done = await send_command(target, "POST", path, {"digest": digest}, BlueprintMoveResult)
    print_answer(done, render_move(done), output)
