"""Actions on prompt overrides; each is sent to a running service over HTTP."""

from __future__ import annotations

import sys
from typing import Final

from turnlog.client import tenant_operations
from turnlog.services.cli.client.service_client import send_command
from turnlog.services.cli.console import OutputFormat, print_answer
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.overrides.override_view import (
    render_override_change,
    render_override_removal,
)

_READ_STDIN: Final = "-"


async def send_override(
    target: ServiceTarget,
    place: tuple[str, str, str],
    text: str,
    fields: dict[str, str | None],
    output: OutputFormat,
) -> None:
    """Set a user's own text; `place` is user, blueprint and category."""
    form = {**fields, "text": sys.stdin.read() if text == _READ_STDIN else text}
    done = await send_command(target, tenant_operations.set_override(*place, form))
    print_answer(done, render_override_change(done), output)


async def send_removal(
    target: ServiceTarget,
    place: tuple[str, str, str],
    profile: str | None,
    provider: str | None,
    output: OutputFormat,
) -> None:
    """Remove a user's own text; `place` is user, blueprint and category."""
    operation = tenant_operations.remove_override(*place, profile=profile, provider=provider)
    done = await send_command(target, operation)
    print_answer(done, render_override_removal(), output)
