"""Render approvals of all sessions."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.turn_payloads import ApprovalPage, ListedApproval
from turnlog.services.cli.views.text_format import format_date_time, format_one_line
from turnlog.services.cli.views.theme import MUTED, create_listing


def render_approvals(page: ApprovalPage) -> RenderableType:
    """List the approvals, and how one is decided."""
    table = create_listing(whole_width=True)
    for title in ("session", "turn", "no.", "user", "requested"):
        table.add_column(title, no_wrap=True)
    table.add_column("tool", ratio=1)
    for each in page.approvals:
        table.add_row(
            Text(each.session, "bold"),
            str(each.turn),
            str(each.approval),
            format_one_line(each.user or ""),
            format_date_time(each.requested_at),
            _format_tool(each),
        )
    return Group(table, *_render_notes(page))


def _format_tool(each: ListedApproval) -> str:
    if each.decision is None:
        deadline = format_date_time(each.deadline)
        return format_one_line(f"{each.tool} {each.arguments or ''} · until {deadline}")
    word = "approved" if each.decision == "approve" else "refused"
    decided = format_date_time(each.decided_at or each.deadline)
    return format_one_line(f"{each.tool} · {word} by {each.by or 'its deadline'} · {decided}")


def _render_notes(page: ApprovalPage) -> Iterator[RenderableType]:
    if not page.approvals:
        yield Text("none", MUTED)
    if page.approvals and (first := page.approvals[0]).decision is None:
        command = f"turnlog approve {first.session} {first.turn} {first.approval} [--refuse]"
        yield Text(f"\ndecide: {command}", MUTED)
        yield Text(f"  edit: add --arguments JSON --shown {first.digest}", MUTED)
    if page.next:
        yield Text(f"more: --before {page.next}", MUTED)
