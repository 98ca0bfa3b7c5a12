"""Actions on prompt overrides; each is sent to a running service over HTTP."""

from __future__ import annotations

import sys
from typing import Final
from urllib.parse import urlencode

from turnlog.contract.override_payloads import (
    OverrideRemovalResult,
    OverrideTextView,
    build_override_path,
)
from turnlog.services.cli.client.service_connection import CommandBody, send_command
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
    fields: CommandBody,
    output: OutputFormat,
) -> None:
    """Set a user's own text; `place` is blueprint, category and user."""
    body = {**fields, "text": sys.stdin.read() if text == _READ_STDIN else text}
    done = await send_command(
        target=target,
        method="PUT",
        path=build_override_path(*place),
        body=body,
        answer_type=OverrideTextView,
    )
    print_answer(done, render_override_change(done), output)


async def send_removal(
    target: ServiceTarget,
    place: tuple[str, str, str],
    fields: dict[str, str | None],
    output: OutputFormat,
) -> None:
    """Remove a user's own text; `place` is blueprint, category and user."""
    query = urlencode({name: value for name, value in fields.items() if value is not None})
    path = "?".join(filter(None, (build_override_path(*place), query)))
    done = await send_command(
        target=target, method="DELETE", path=path, body={}, answer_type=OverrideRemovalResult
    )
    print_answer(done, render_override_removal(), output)
