from __future__ import annotations

from rich.text import Text

from turnlog.services.cli.options import Served
from turnlog.services.cli.screens.palette import GOOD, QUIET
from turnlog.services.cli.sending import sent
from turnlog.services.cli.show import Form, shown
from turnlog.services.gateway.payloads.turns import Acted


async def switch(
    served: Served, session: str, profile: str | None, model: str | None, form: Form
) -> None:
    """Switch the profile or the model and print the event that records it."""
    path = f"/v1/sessions/{session}/profile"
    done = await sent(served, "POST", path, {"profile": profile, "model": model}, Acted)
    line = Text("✓ ", GOOD).append(f"{done.session} goes on as asked", "default")
    shown(done, line.append(f"  event {done.sequence}", QUIET), form)
