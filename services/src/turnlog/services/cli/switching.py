from __future__ import annotations

from rich.text import Text

from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.screens.palette import GOOD, MUTED
from turnlog.services.cli.sending import send_command
from turnlog.services.cli.show import OutputFormat, print_answer
from turnlog.services.gateway.payloads.turns import CommandResult


async def send_switch(
    target: ServiceTarget, session: str, profile: str | None, model: str | None, output: OutputFormat
) -> None:
    """Switch the profile or the model and print the event that records it."""
    path = f"/v1/sessions/{session}/profile"
    done = await send_command(target, "POST", path, {"profile": profile, "model": model}, CommandResult)
    line = Text("✓ ", GOOD).append(f"{done.session} goes on as asked", "default")
    print_answer(done, line.append(f"  event {done.sequence}", MUTED), output)
