"""Segments on a terminal: a list, one with all its versions, and the result of an import."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.projections.blueprint.faults import Fault
from turnlog.services.cli.screens.palette import BAD, GOOD, QUIET
from turnlog.services.cli.screens.sessions import listing
from turnlog.services.cli.screens.spelling import day_and_clock, harmless, one_line
from turnlog.services.gateway.payloads.segments import (
    ListedSegment,
    SegmentChanged,
    SegmentPage,
    SegmentsImported,
    SegmentView,
    VersionView,
)

_GONE = "(gone from the store)"


def segment_table(page: SegmentPage) -> RenderableType:
    """List segments and how to see the next page."""
    table = listing(whole_width=True)
    table.add_column("segment", justify="right", no_wrap=True)
    for title in ("for", "locale", "tier", "type", "version"):
        table.add_column(title, no_wrap=True)
    table.add_column("text", no_wrap=True, overflow="ellipsis", ratio=1)
    for each in page.segments:
        table.add_row(*_cells(each), style=None if each.active else QUIET)
    more = [Text(f"\nmore: --after {page.next}", QUIET)] if page.next else []
    return Group(table, *more)


def _cells(each: ListedSegment) -> tuple[str | Text, ...]:
    place = "/".join(filter(None, (each.scope, each.ref)))
    version = f"{each.version} {each.variant}"
    return (
        Text(str(each.id), "bold"),
        place,
        each.locale or "",
        str(each.tier),
        each.type,
        version if each.active else f"{version} off",
        one_line(each.content or _GONE),
    )


def segment_screen(segment: SegmentView) -> RenderableType:
    """Render one segment, its latest version last."""
    place = "/".join(filter(None, (segment.scope, segment.ref, segment.locale)))
    head = Text.assemble((f"segment {segment.id}", "bold"), f"  {place}")
    head.append("" if segment.active else "  off", BAD)
    return Group(head, *(_version(each, segment) for each in segment.versions))


def _version(version: VersionView, segment: SegmentView) -> RenderableType:
    given = segment.variants.get(version.variant) == version.version
    title = f"version {version.version}, variant {version.variant}, tier {version.tier}"
    kind = f", {version.type}" if version.type else ""
    when = f"  {day_and_clock(version.edited_at)} by {version.edited_by}"
    table = Table.grid(padding=(0, 2))
    table.add_row(Text(f"\n{title}{kind}, {version.priority}{when}", GOOD if given else QUIET))
    table.add_row(Text(harmless(version.content or _GONE)))
    return table


def changed_line(done: SegmentChanged) -> Text:
    """Render the number and version of a changed segment."""
    return Text.assemble((f"segment {done.segment}", "bold"), f" version {done.version}")


def import_line(done: SegmentsImported) -> Text:
    """Render the result of an import."""
    said = f"{done.rows} rows: {len(done.added)} added, {len(done.edited)} edited"
    return Text("✓ ", GOOD).append(said, "default")


def fault_lines(faults: Iterable[Fault]) -> RenderableType:
    """Render the faults of segment files."""
    return Group(*(_fault(fault) for fault in faults))


def _fault(fault: Fault) -> Text:
    line = Text().append("✗ ", BAD).append(f"{fault.file}:{fault.line} ", "bold")
    line.append(harmless(f"{fault.path}: {fault.what}" if fault.path else fault.what))
    return line.append(f"\n  {fault.fix}", QUIET)
