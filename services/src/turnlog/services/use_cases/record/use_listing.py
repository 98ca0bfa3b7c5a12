"""Listing uses: which calls had a source in their prompt.

An answer leaves nothing out silently: it waits until the rows contain every call that was recorded
when it was asked for, and names the sessions whose rows stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.contract.use_payloads import UseHopView, UsePage, UseView
from turnlog.events.codec import decode_knowledge_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.knowledge_events import (
    KNOWLEDGE_FAMILY,
    KnowledgeAdded,
    KnowledgeEdited,
    KnowledgeEntry,
)
from turnlog.events.store.ports import EventLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.row_types import ListedUse
from turnlog.projections.store.read.source_uses import UseQuery, list_uses
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.projections.store.write.stopped_sessions import list_stopped_sessions
from turnlog.projections.uses.prompt_sources import build_entry_name
from turnlog.projections.uses.source_names import SoughtSource, parse_source_name
from turnlog.projections.uses.use_records import StoredSource, UseHop
from turnlog.services.command_handling.row_waits import RowWaits

_PAGE_MARK: Final = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})")


@dataclass(frozen=True, slots=True)
class UseListing:
    """Lists the calls that had a source in their prompt."""

    log: EventLog
    """The log of the sessions."""
    library: EventLog
    """The log of the library, which has the knowledge."""
    store: ReadModelStore
    row_waits: RowWaits

    async def list_uses(
        self,
        tenant: str,
        source: str,
        *,
        session: str | None = None,
        replies: bool = False,
        limit: int,
        after: str | None = None,
    ) -> UsePage:
        """Return calls that had a source; `after` is the `next` of the previous page.

        With `replies`, a reply is taken to repeat what its prompt had.
        """
        sought = parse_source_name(source)
        mark = None if after is None else _parse_page_mark(after)
        query = UseQuery(
            sources=frozenset(await self._list_stored_sources(tenant, sought)),
            texts=dict([sought.text]) if sought.text else {},
            replies=replies,
            session=session,
        )
        if lag := await self.row_waits.measure_remaining_lag(self.log, tenant):
            detail = f"the read models are {lag} events behind the log"
            raise Refused("behind", detail, fix="send the request again")
        async with self.store.open_reader() as connection:
            uses, has_more = await list_uses(connection, tenant, query, limit=limit, after=mark)
            active = await read_active_position(connection)
            build = active.build if active else 0
            stopped = await list_stopped_sessions(connection, build, tenant)
        return UsePage(
            source=source,
            uses=tuple(map(_create_use_view, uses)),
            stopped=tuple(each.session for each in stopped),
            next=_format_page_mark(uses[-1]) if has_more else None,
        )

    async def _list_stored_sources(self, tenant: str, sought: SoughtSource) -> list[StoredSource]:
        """Return what a name stands for; entries by what any revision of them had."""
        stored = [sought.stored] if sought.stored else []
        if sought.imported is None and sought.tag is None:
            return stored
        last = await self.library.read_last_event(tenant, KNOWLEDGE_FAMILY)
        if last is None:
            return stored
        events = await self.library.read_range(tenant, KNOWLEDGE_FAMILY, None, last)
        return stored + list(_find_revisions(events, sought))


def _find_revisions(
    events: Sequence[RecordedEvent], sought: SoughtSource
) -> Iterator[StoredSource]:
    """Yield the revisions of entries that were imported from a file, or have a tag."""
    for recorded in events:
        event = decode_knowledge_event(recorded)
        if isinstance(event, KnowledgeAdded | KnowledgeEdited):
            for entry in event.entries:
                if _is_sought(event.collection, entry, sought):
                    name = build_entry_name(event.collection, entry.id)
                    yield StoredSource("document", name, recorded.sequence)


def _is_sought(collection: str, entry: KnowledgeEntry, sought: SoughtSource) -> bool:
    is_imported = entry.source is not None and sought.imported == (collection, entry.source)
    return is_imported or sought.tag in entry.tags


def _parse_page_mark(after: str) -> tuple[int, int]:
    mark = _PAGE_MARK.fullmatch(after)
    if mark is None:
        fix = "send the `next` of the previous page"
        raise Refused("invalid", "it is no page of a list of uses", field="after", fix=fix)
    return int(mark[1]), int(mark[2])


def _format_page_mark(use: ListedUse) -> str:
    return ".".join(map(str, use.place))


def _create_use_view(use: ListedUse) -> UseView:
    return UseView(
        session=use.session,
        turn=use.turn,
        call=use.call,
        kind=use.kind,
        model=use.model,
        at=use.at,
        sequence=use.sequence,
        reply=use.reply,
        through=tuple(map(_create_hop_view, use.through)),
    )


def _create_hop_view(hop: UseHop) -> UseHopView:
    return UseHopView(
        kind=hop.kind,
        session=hop.session,
        turn=hop.turn or None,
        sequence=hop.sequence or None,
    )
