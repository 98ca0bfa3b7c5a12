"""Tenants on a terminal: all of them, and what one may use."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.installation.tenant_payloads import TenantPage, TenantResult, TenantView
from turnlog.services.cli.views.text_format import escape_controls, format_date_time
from turnlog.services.cli.views.theme import MUTED, create_listing


def render_tenants(page: TenantPage) -> RenderableType:
    """List the tenants."""
    table = create_listing()
    for title in ("tenant", "keys", "models", "open", "waiting", "changed"):
        table.add_column(title, no_wrap=title != "models")
    for each in page.tenants:
        changed = format_date_time(each.changed_at) if each.changed_at else ""
        table.add_row(
            each.tenant,
            f"{each.keys:,}",
            _format_models(each),
            _format_limit(each.max_open_turns),
            _format_limit(each.max_waiting_turns),
            changed,
        )
    return table


def render_tenant(answer: TenantResult) -> RenderableType:
    """Render what a tenant may use."""
    return Group(*_iterate_lines(answer.tenant))


def _iterate_lines(view: TenantView) -> Iterator[Text]:
    yield Text("tenant       ", MUTED).append(view.tenant, "bold")
    yield Text("keys         ", MUTED).append(f"{view.keys:,}", "default")
    yield Text("models       ", MUTED).append(_format_models(view), "default")
    yield Text("open turns   ", MUTED).append(_format_limit(view.max_open_turns), "default")
    yield Text("waiting      ", MUTED).append(_format_limit(view.max_waiting_turns), "default")
    yield Text("bytes a min  ", MUTED).append(_format_limit(view.body_bytes_per_minute), "default")
    for provider, place in sorted(view.provider_keys.items()):
        yield Text("key          ", MUTED).append(
            f"{provider}: {escape_controls(place)}", "default"
        )
    if view.changed_at is not None:
        changed = f"{format_date_time(view.changed_at)} by {escape_controls(view.changed_by or '')}"
        yield Text("changed      ", MUTED).append(changed, "default")


def _format_limit(limit: int | None) -> str:
    return "any" if limit is None else f"{limit:,}"


def _format_models(view: TenantView) -> str:
    return "all" if view.models is None else ", ".join(view.models) or "none"
