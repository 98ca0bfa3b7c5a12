"""The check of webhooks: whether any is stopped, or has sessions that were given up."""

from __future__ import annotations

from typing import Final

import httpx

from turnlog.client.operations import build_sign_in
from turnlog.contract import api_paths
from turnlog.contract.webhook_payloads import WebhookPage, WebhookView
from turnlog.events.errors import Refused
from turnlog.services.cli.account_file import find_key
from turnlog.services.cli.doctor.check_findings import (
    CheckFinding,
    report_good,
    report_warning,
)

TIMEOUT_SECONDS: Final = 5.0

_WHAT: Final = "webhooks"


def check_webhooks(running: str | None) -> tuple[CheckFinding, ...]:
    """Check the webhooks of a running service; find nothing where there is none of either."""
    if running is None:
        return ()
    try:
        answer = httpx.get(
            f"{running}{api_paths.WEBHOOKS}",
            headers=build_sign_in(find_key(running)),
            timeout=TIMEOUT_SECONDS,
        )
        webhooks = WebhookPage.model_validate_json(answer.raise_for_status().content).webhooks
    except (httpx.HTTPError, ValueError, Refused) as error:
        fix = "`turnlog webhooks list` says more"
        return (report_warning(_WHAT, f"not checked: {type(error).__name__}", fix),)
    if not webhooks:
        return ()
    found = tuple(finding for each in webhooks if (finding := find_webhook_fault(each)))
    return found or (report_good(_WHAT, f"{len(webhooks)}, none is stopped or gave up a session"),)


def find_webhook_fault(webhook: WebhookView) -> CheckFinding | None:
    """Return the warning about a webhook, or None if there is nothing to do about it."""
    failure = f": {webhook.failure.detail}" if webhook.failure else ""
    if webhook.status == "stopped":
        fix = f"when the receiver is well, `turnlog webhooks resume {webhook.name}`"
        return report_warning(_WHAT, f"{webhook.name} is stopped{failure}", fix)
    if webhook.given_up:
        fix = f"when the receiver is well, `turnlog webhooks redeliver {webhook.name}`"
        detail = f"{webhook.name} gave up {webhook.given_up} sessions{failure}"
        return report_warning(_WHAT, detail, fix)
    return None
