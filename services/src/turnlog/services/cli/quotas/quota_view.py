"""Render the quotas of users."""

from __future__ import annotations

from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.usage_payloads import MediaLimitView, QuotaPage, QuotaView, UserLimitsView
from turnlog.services.cli.views.text_format import escape_controls
from turnlog.services.cli.views.theme import BAD, MUTED, create_listing

_UNLIMITED: Final = "unlimited"


def render_quotas(page: QuotaPage) -> RenderableType:
    """Render the limits of all users who have one, and that of the tenant's media."""
    if page.media.limit is None:
        return _render_user_limits(page)
    return Group(_render_user_limits(page), render_media_limit(page.media))


def render_media_limit(media: MediaLimitView) -> RenderableType:
    """Render what the tenant may store of media, and what it has stored."""
    if media.limit is None:
        return Text("media: unlimited, and not counted", MUTED)
    reserved = f", {media.reserved:,} are being stored" if media.reserved else ""
    used = f"media: {media.stored or 0:,} of {media.limit:,} bytes in {media.items or 0:,} items"
    return Text(f"{used}{reserved}; {media.left or 0:,} left", "" if media.left else BAD)


def _render_user_limits(page: QuotaPage) -> RenderableType:
    if not page.quotas:
        return Text("no user has a quota", MUTED)
    table = create_listing()
    for title in ("user", "input tokens", "output tokens", "turns an hour", "turns a day"):
        table.add_column(title, no_wrap=True)
    for quota in page.quotas:
        table.add_row(escape_controls(quota.user), *_format_limits(quota))
    return table


def _format_limits(quota: UserLimitsView) -> list[str]:
    limits = (
        quota.input_tokens,
        quota.output_tokens,
        quota.requests_per_hour,
        quota.requests_per_day,
    )
    return [_UNLIMITED if limit is None else f"{limit:,}" for limit in limits]


def render_quota(quota: QuotaView) -> RenderableType:
    """Render the limits of a user, with what is left of each."""
    title = Text(escape_controls(quota.limits.user), "bold").append(f" {quota.period}", MUTED)
    if not quota.uses:
        return Group(title, Text("no quota: every turn is allowed", MUTED))
    table = create_listing()
    for column in ("limit", "of", "used", "reserved", "left", "resets at (UTC)"):
        table.add_column(column, no_wrap=True)
    for use in quota.uses:
        figures = (f"{number:,}" for number in (use.limit, use.used, use.reserved, use.left))
        resets = use.resets_at.replace("T", " ").removesuffix(":00Z")
        table.add_row(use.name.replace("_", " "), *figures, resets)
    return Group(title, table) if quota.allowed else Group(title, table, Text(quota.message, BAD))
