"""Actions on quotas; each is sent to a running service over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from turnlog.client import tenant_operations
from turnlog.services.cli.client.service_client import send_command
from turnlog.services.cli.console import OutputFormat, print_answer
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.quotas.quota_view import render_quota


async def send_limits(
    target: ServiceTarget, user: str, limits: Mapping[str, int | None], output: OutputFormat
) -> None:
    """Set all limits of a user and print what is left of them."""
    view = await send_command(target, tenant_operations.set_quota(user, limits))
    print_answer(view, render_quota(view), output)
