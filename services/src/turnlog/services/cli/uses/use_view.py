"""Render the calls that had a source in their prompt."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.use_payloads import UseHopView, UsePage, UseView
from turnlog.services.cli.views.text_format import format_date_time, format_one_line
from turnlog.services.cli.views.theme import BAD, MUTED, create_listing


def render_uses(page: UsePage) -> RenderableType:
    """List the calls with the way of the source, and how to see more."""
    table = create_listing(whole_width=True)
    for title in ("session", "turn", "call", "kind", "at"):
        table.add_column(title, no_wrap=True)
    table.add_column("the prompt had it", ratio=1)
    for use in page.uses:
        table.add_row(
            Text(use.session, "bold"),
            str(use.turn),
            f"{use.call} {'→ reply' if use.reply else ''}",
            format_one_line(use.kind),
            format_date_time(use.at),
            _format_way(use),
        )
    return Group(table, *_render_notes(page))


def _render_notes(page: UsePage) -> Iterator[RenderableType]:
    if not page.uses:
        yield Text("no call had it in its prompt", MUTED)
    if page.uses:
        first = page.uses[0]
        yield Text(f"\nwhy: turnlog why {first.session} {first.call}", MUTED)
    if page.stopped:
        stopped = ", ".join(page.stopped)
        yield Text(
            f"incomplete: the read models of {stopped} stopped; turnlog quarantine list", BAD
        )
    if page.next:
        yield Text(f"more: --after {page.next}", MUTED)


def _format_way(use: UseView) -> str:
    if not use.through:
        return "directly"
    return "through " + ", then ".join(_format_hop(hop, use.session) for hop in use.through)


def _format_hop(hop: UseHopView, session: str) -> str:
    """Return a hop in words; its session is named where it is not that of the call."""
    elsewhere = "" if hop.session == session else f" of {hop.session}"
    match hop.kind:
        case "summary":
            return f"the summary of event {hop.sequence}{elsewhere}"
        case "carried":
            return f"the text carried by event {hop.sequence}{elsewhere}"
        case "step":
            return f"the step of event {hop.sequence}{elsewhere}"
        case "reply":
            return f"the reply of turn {hop.turn}{elsewhere}"
        case "parent":
            return f"the request of its parent {hop.session}, turn {hop.turn}"
        case "child":
            return f"its child {hop.session}, turn {hop.turn}"
        case "fork":
            return f"the same event of {hop.session}"
