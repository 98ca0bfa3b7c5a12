"""Knowledge on a terminal: collections, entries, hits with their scores, and changes."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.knowledge_payloads import (
    CollectionList,
    EntryPage,
    HitView,
    KnowledgeChangeResult,
    KnowledgeSearchResult,
)
from turnlog.services.cli.views.text_format import format_one_line
from turnlog.services.cli.views.theme import GOOD, MUTED, create_listing

_MISSING_TEXT = "(gone from the store)"


def render_collections(found: CollectionList) -> RenderableType:
    """List collections."""
    table = create_listing()
    table.add_column("collection", no_wrap=True)
    for title in ("cases", "documents", "characters"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in found.collections:
        table.add_row(
            Text(each.collection, "bold"),
            f"{each.cases:,}",
            f"{each.documents:,}",
            f"{each.characters:,}",
        )
    return table


def render_entries(page: EntryPage) -> RenderableType:
    """List entries and how to see the next page."""
    table = create_listing(whole_width=True)
    for title in ("entry", "kind", "efficiency", "revision"):
        table.add_column(title, no_wrap=True)
    table.add_column("title and text", no_wrap=True, overflow="ellipsis", ratio=1)
    for each in page.entries:
        table.add_row(
            Text(each.id, "bold"),
            each.kind,
            "" if each.efficiency is None else f"{each.efficiency:g}",
            str(each.revision),
            format_one_line(f"{each.title}  {each.text or _MISSING_TEXT}"),
        )
    more = [Text(f"\nmore: --after {page.next}", MUTED)] if page.next else []
    return Group(table, *more)


def render_hits(found: KnowledgeSearchResult) -> RenderableType:
    """List hits with the scores of both rankings, and what found them."""
    table = create_listing(whole_width=True)
    for title in ("entry", "kind", "confidence", "words", "vector", "votes"):
        table.add_column(title, no_wrap=True)
    table.add_column("title and text", no_wrap=True, overflow="ellipsis", ratio=1)
    for each in found.hits:
        table.add_row(*_build_cells(each))
    made = f"\nindex {found.index_version}, embedder {found.embedder}, up to {found.sequence}"
    return Group(table, Text(made, MUTED))


def _build_cells(each: HitView) -> tuple[str | Text, ...]:
    return (
        Text(f"{each.collection}/{each.id}", "bold"),
        each.kind,
        f"{each.confidence:.2f}",
        _format_score(each.lexical_score),
        _format_score(each.vector_score),
        f"{each.feedback:+d}" if each.feedback else "",
        format_one_line(f"{each.title}  {each.text}"),
    )


def _format_score(score: float | None) -> str:
    return "" if score is None else f"{score:.2f}"


def render_knowledge_change(
    done: KnowledgeChangeResult, entry: str | None, total: int | None = None
) -> Text:
    """Render what a change did."""
    place = done.collection if entry is None else f"{done.collection}/{entry}"
    counts = {"added": done.added, "edited": done.edited, "removed": done.removed}
    changed = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    of = "" if total is None else f"{total:,} {'entry' if total == 1 else 'entries'}: "
    return Text("✓ ", GOOD).append(f"{place}  {of}{changed or 'as it was'}", "default")
