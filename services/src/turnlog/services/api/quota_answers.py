"""Quotas as answers have them: built from the limits that are recorded and what is left of them."""

from __future__ import annotations

from turnlog.contract.usage_payloads import LimitUseView, UserLimitsView
from turnlog.events.model.quota_events import QuotaLimits
from turnlog.projections.quotas.quota_decisions import LimitUse, format_reset


def create_limit_use(use: LimitUse) -> LimitUseView:
    """Return a limit as responses have it."""
    return LimitUseView(
        name=use.name,
        limit=use.limit,
        used=use.used,
        reserved=use.reserved,
        left=use.left,
        resets_at=format_reset(use.resets_at),
    )


def create_user_limits(user: str, limits: QuotaLimits) -> UserLimitsView:
    """Return the limits of a user as responses have them."""
    return UserLimitsView(
        user=user,
        input_tokens=limits.input_tokens,
        output_tokens=limits.output_tokens,
        requests_per_hour=limits.requests_per_hour,
        requests_per_day=limits.requests_per_day,
    )
