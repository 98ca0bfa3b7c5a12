"""Actions on quotas; each is sent to a running service over HTTP."""

from __future__ import annotations

from turnlog.contract.quota_payloads import QuotaView, build_quota_path
from turnlog.services.cli.client.service_connection import CommandBody, send_command
from turnlog.services.cli.console import OutputFormat, create_output_console, print_json
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.quotas.quota_view import render_quota


async def send_limits(
    target: ServiceTarget, user: str, limits: CommandBody, output: OutputFormat
) -> None:
    """Set all limits of a user and print what is left of them."""
    view = await send_command(
        target=target, method="PUT", path=build_quota_path(user), body=limits, answer_type=QuotaView
    )
    if output == "json":
        print_json(view.model_dump(mode="json"))
    else:
        create_output_console().print(render_quota(view))
