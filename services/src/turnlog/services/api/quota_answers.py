"""Quotas as answers have them: built from the limits that are recorded and what is left of them."""

from __future__ import annotations

from turnlog.contract.usage_payloads import LimitUseView, MediaLimitView, UserLimitsView
from turnlog.events.model.quota_events import QuotaLimits
from turnlog.projections.quotas.media_limits import TenantMedia
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


def create_media_limit(media: TenantMedia) -> MediaLimitView:
    """Return the limit of a tenant's media as responses have it."""
    balance = media.balance
    limit, reserved = balance.limit, sum(each.size for each in balance.reservations)
    return MediaLimitView(
        sequence=media.head.sequence if media.head else 0,
        limit=limit,
        stored=None if limit is None else balance.stored,
        items=None if limit is None else balance.items,
        reserved=reserved,
        left=None if limit is None else max(0, limit - balance.stored - reserved),
    )
