"""Segments that are in no imported file any more: found, shown and switched off.

Their texts and versions stay, since segments are never removed. Only scopes that the files have are
looked at: another file may have the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.client.operations import build_command, build_read
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.events.content import compute_digest
from turnlog.events.model.segment_events import SegmentText
from turnlog.projections.library.segment_inputs import DEFAULT_VARIANT, SegmentInput
from turnlog.services.api.segment_payloads import SegmentChangeResult, SegmentPage, SegmentRow
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.segments.segment_view import render_segments
from turnlog.services.cli.views.text_format import format_count
from turnlog.services.cli.views.theme import MUTED

_PAGE_SIZE = 500


async def list_gone_segments(
    service: ServiceClient, rows: Sequence[SegmentInput], min_sequence: int | None = None
) -> list[SegmentRow]:
    """Return the active variants of segments that no row is about, in the scopes of the rows."""
    found, after = list[SegmentRow](), None
    while True:
        query = {"active": True, "limit": _PAGE_SIZE, "after": after, "min_sequence": min_sequence}
        page = await service.send(build_read(api_paths.SEGMENTS, SegmentPage, query))
        found += page.segments
        after = page.next
        if after is None:
            return list(_iterate_gone(rows, found))


def _iterate_gone(
    rows: Sequence[SegmentInput], listed: Iterable[SegmentRow]
) -> Iterator[SegmentRow]:
    """Yield what no row is about, by number or else by place and text, as an import has it."""
    scopes = {row.scope for row in rows}
    variants = {(row.id, row.variant) for row in rows if row.id is not None}
    texts = {(row.scope, row.ref, row.locale, row.text) for row in rows if row.id is None}
    for each in listed:
        text = (each.scope, each.ref, each.locale, _get_text(each))
        has_row = (each.id, each.variant) in variants or (
            each.variant == DEFAULT_VARIANT and text in texts
        )
        if each.scope in scopes and not has_row:
            yield each


def _get_text(row: SegmentRow) -> SegmentText:
    """Return a text as files have it: in a sealed library its own digest is keyed."""
    return SegmentText(
        digest=row.digest if row.content is None else compute_digest(row.content),
        characters=row.characters,
        tier=row.tier,
        type=row.type,
        priority=row.priority,
    )


async def mark_segments_inactive(service: ServiceClient, segments: Iterable[SegmentRow]) -> int:
    """Switch variants of segments off, one by one; return the last sequence, or 0."""
    sequence = 0
    for each in segments:
        path = format_path(api_paths.SEGMENT, segment=each.id)
        body = {"variant": each.variant, "active": False}
        done = await service.send(build_command(path, body, SegmentChangeResult, "PATCH"))
        sequence = done.sequence
    return sequence


def render_gone_segments(segments: Sequence[SegmentRow]) -> RenderableType:
    """List the segments that an import would switch off."""
    if not segments:
        return Text("no segment would be switched off", MUTED)
    head = Text(f"{format_count(len(segments), 'text')} would be switched off")
    return Group(head, render_segments(SegmentPage(segments=tuple(segments), next=None)))


def dump_gone_segments(segments: Iterable[SegmentRow]) -> list[JsonValue]:
    """Return segments that are switched off, for programs."""
    return [{"segment": each.id, "variant": each.variant} for each in segments]
