"""Actions on one session and the tool results and pins shown with it.

A running service carries out each action.
"""

from __future__ import annotations

from rich.text import Text

from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.screens.palette import MUTED
from turnlog.services.cli.sending import send_command
from turnlog.services.cli.show import OutputFormat, print_answer
from turnlog.services.gateway.payloads.sessions import ForkedSession


async def send_fork(target: ServiceTarget, session: str, at: int, into: str | None, output: OutputFormat) -> None:
    """Fork a session and print the id of the fork."""
    body = {"at": at, "session": into}
    made = await send_command(target, "POST", f"/v1/sessions/{session}/fork", body, ForkedSession)
    line = Text(made.session, "bold")
    print_answer(made, line.append(f"  goes on from {session} at sequence {at:,}", MUTED), output)
