"""Segments on a terminal: a list, one with all its versions, and the result of an import."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.services.api.segment_payloads import (
    SegmentChangeResult,
    SegmentImportResult,
    SegmentPage,
    SegmentRow,
    SegmentVersionView,
    SegmentView,
)
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_date_time,
    format_one_line,
)
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, create_listing

_MISSING_TEXT = "(gone from the store)"


def render_segments(page: SegmentPage) -> RenderableType:
    """List segments and how to see the next page."""
    table = create_listing(whole_width=True)
    table.add_column("segment", justify="right", no_wrap=True)
    for title in ("for", "locale", "tier", "type", "version"):
        table.add_column(title, no_wrap=True)
    table.add_column("text", no_wrap=True, overflow="ellipsis", ratio=1)
    for each in page.segments:
        table.add_row(*_build_cells(each), style=None if each.active else MUTED)
    more = [Text(f"\nmore: --after {page.next}", MUTED)] if page.next else []
    return Group(table, *more)


def _build_cells(each: SegmentRow) -> tuple[str | Text, ...]:
    place = "/".join(filter(None, (each.scope, each.ref)))
    version = f"{each.version} {each.variant}"
    return (
        Text(str(each.id), "bold"),
        place,
        each.locale or "",
        str(each.tier),
        each.type,
        version if each.active else f"{version} off",
        format_one_line(each.content or _MISSING_TEXT),
    )


def render_segment(segment: SegmentView) -> RenderableType:
    """Render one segment, its latest version last."""
    place = "/".join(filter(None, (segment.scope, segment.ref, segment.locale)))
    head = Text.assemble((f"segment {segment.id}", "bold"), f"  {place}")
    head.append("" if segment.active else "  off", BAD)
    return Group(head, *(_render_version(each, segment) for each in segment.versions))


def _render_version(version: SegmentVersionView, segment: SegmentView) -> RenderableType:
    is_current = segment.variants.get(version.variant) == version.version
    title = f"version {version.version}, variant {version.variant}, tier {version.tier}"
    kind = f", {version.type}" if version.type else ""
    when = f"  {format_date_time(version.edited_at)} by {version.edited_by}"
    table = Table.grid(padding=(0, 2))
    table.add_row(Text(f"\n{title}{kind}, {version.priority}{when}", GOOD if is_current else MUTED))
    table.add_row(Text(escape_controls(version.content or _MISSING_TEXT)))
    return table


def render_segment_change(done: SegmentChangeResult) -> Text:
    """Render the number and version of a changed segment."""
    return Text.assemble((f"segment {done.segment}", "bold"), f" version {done.version}")


def render_import(done: SegmentImportResult, deactivated: int) -> Text:
    """Render the result of an import, and how many texts it switched off."""
    summary = f"{done.rows} rows: {len(done.added)} added, {len(done.edited)} edited"
    summary += f", {deactivated} switched off" if deactivated else ""
    return Text("✓ ", GOOD).append(summary, "default")
