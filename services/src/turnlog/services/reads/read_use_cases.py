"""Listing the log of reads, a page at a time, the newest look first."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from turnlog.contract.installation.read_payloads import ReadPage, ReadView
from turnlog.events.codec import format_rfc3339
from turnlog.events.errors import Refused
from turnlog.services.reads.read_log import ReadLog, RecordedLook, format_day

DEFAULT_SPAN: Final = timedelta(days=31)
"""How far back is listed where no beginning is given."""

MAX_EXAMINED: Final = 5_000
"""Looks that are examined for one page."""

MAX_DAYS: Final = 100
"""Days that are examined for one page."""

_PLACE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:\.([1-9]\d{0,15}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSelection:
    """Which looks are listed; None selects all."""

    actor: str | None = None
    session: str | None = None
    what: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def contains(self, look: RecordedLook) -> bool:
        """Return whether a look is one of these."""
        event = look.event
        if self.session is not None and self.session not in {event.session, event.other_session}:
            return False
        # Times have one form, so they sort as texts.
        is_early = self.since is not None and look.at < format_rfc3339(self.since)
        is_late = self.until is not None and look.at >= format_rfc3339(self.until)
        is_named = self.actor in {None, look.actor} and self.what in {None, event.what}
        return is_named and not is_early and not is_late


@dataclass(frozen=True, slots=True)
class _Place:
    day: date
    before: int | None = None
    """The sequence before which to go on; None for the end of the day."""


@dataclass(frozen=True, slots=True)
class ReadUseCases:
    """Lists the looks of a tenant."""

    reads: ReadLog

    async def list_reads(
        self, tenant: str, selection: ReadSelection, *, limit: int, before: str | None = None
    ) -> ReadPage:
        """Return a page of looks; `before` is `next` of the page before it."""
        place = _parse_place(before) if before else self._find_start(selection)
        until = selection.until or self.reads.clock()
        begin = selection.since or max(until, _FIRST + DEFAULT_SPAN) - DEFAULT_SPAN
        first = max(begin, _FIRST).astimezone(UTC).date()
        found, examined = list[ReadView](), 0
        for _ in range(MAX_DAYS):
            if place.day < first:
                return ReadPage(reads=tuple(found), next=None)
            async with aclosing(self.reads.read_day(tenant, place.day, place.before)) as looks:
                async for look in looks:
                    examined += 1
                    sequence = look if isinstance(look, int) else look.head.sequence
                    if isinstance(look, RecordedLook) and selection.contains(look):
                        found.append(_create_view(look))
                    if len(found) == limit or examined == MAX_EXAMINED:
                        return ReadPage(
                            reads=tuple(found), next=f"{format_day(place.day)}.{sequence}"
                        )
            place = _Place(place.day - timedelta(days=1))
        return ReadPage(reads=tuple(found), next=format_day(place.day))

    def _find_start(self, selection: ReadSelection) -> _Place:
        # A process whose clock is ahead may have begun the day after.
        latest = (self.reads.clock() + timedelta(days=1)).astimezone(UTC)
        until = selection.until.astimezone(UTC) if selection.until else latest
        return _Place(min(until, latest).date())


def _parse_place(before: str) -> _Place:
    found = _PLACE.fullmatch(before)
    try:
        day = date.fromisoformat(found[1]) if found else None
    except ValueError:
        day = None
    if found is None or day is None:
        fix = "send `next` of the page before, or nothing"
        raise Refused("bad-cursor", "it is no place in the log of reads", field="before", fix=fix)
    return _Place(day, int(found[2]) if found[2] else None)


_FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Nothing was recorded before then."""


def _create_view(look: RecordedLook) -> ReadView:
    fields = look.event.model_dump()
    return ReadView(at=look.at, actor=look.actor, position=look.head.stream_sequence, **fields)
