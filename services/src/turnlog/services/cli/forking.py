"""Actions on one session and the tool results and pins shown with it.

A running service carries out each action.
"""

from __future__ import annotations

from rich.text import Text

from turnlog.services.cli.options import Served
from turnlog.services.cli.screens.palette import QUIET
from turnlog.services.cli.sending import sent
from turnlog.services.cli.show import Form, shown
from turnlog.services.gateway.payloads.sessions import Forked


async def fork(served: Served, session: str, at: int, into: str | None, form: Form) -> None:
    """Fork a session and print the id of the fork."""
    body = {"at": at, "session": into}
    made = await sent(served, "POST", f"/v1/sessions/{session}/fork", body, Forked)
    line = Text(made.session, "bold")
    shown(made, line.append(f"  goes on from {session} at sequence {at:,}", QUIET), form)
