"""Entries that an earlier import gave and that are in no file any more: found, shown and removed.

Only what has a source is meant, the file that an import read it from: an entry that somebody added
by itself stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.client import tenant_operations
from turnlog.contract.knowledge_payloads import EntryRow
from turnlog.events.errors import Refused
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.knowledge.knowledge_files import FileEntry
from turnlog.services.cli.views.text_format import escape_controls, format_count
from turnlog.services.cli.views.theme import MUTED

_PAGE_SIZE = 500


async def list_gone_entries(
    service: ServiceClient,
    collection: str,
    files: Iterable[Sequence[FileEntry]],
    min_sequence: int | None = None,
) -> list[EntryRow]:
    """Return the imported entries of a collection that are not among those of the files."""
    imported = {each.entry.id for entries in files for each in entries}
    try:
        return await _list_entries_without(service, collection, imported, min_sequence)
    except Refused as refused:
        if refused.code == "unknown-collection":
            return []
        raise


async def _list_entries_without(
    service: ServiceClient, collection: str, ids: Collection[str], min_sequence: int | None
) -> list[EntryRow]:
    found, after = list[EntryRow](), None
    while True:
        operation = tenant_operations.list_entries(collection, after, _PAGE_SIZE, min_sequence)
        page = await service.send(operation)
        found += (each for each in page.entries if each.source is not None and each.id not in ids)
        after = page.next
        if after is None:
            return found


async def remove_gone_entries(service: ServiceClient, entries: Iterable[EntryRow]) -> int:
    """Remove entries one by one; return the sequence of the last removal, or 0."""
    sequence = 0
    for each in entries:
        done = await service.send(tenant_operations.remove_entry(each.collection, each.id))
        sequence = done.sequence
    return sequence


def render_gone_entries(collection: str, entries: Sequence[EntryRow]) -> RenderableType:
    """Render how many entries of which files an import would remove."""
    if not entries:
        return Text(f"{collection} has nothing that the files do not have", MUTED)
    counts = Counter(each.source or "" for each in entries)
    lines = (
        Text(f"  {escape_controls(source)}  ").append(format_entries(number), MUTED)
        for source, number in sorted(counts.items())
    )
    return Group(Text(f"{collection}: {format_entries(len(entries))} would be removed"), *lines)


def format_entries(number: int) -> str:
    """Return a number of entries in words."""
    return format_count(number, "entry") if number == 1 else f"{number:,} entries"


def dump_gone_entries(collection: str, entries: Iterable[EntryRow]) -> JsonValue:
    """Return what an import would remove, for programs."""
    removed: list[JsonValue] = [{"id": each.id, "source": each.source} for each in entries]
    return {"collection": collection, "would_remove": removed}
