"""A session that is taken out of the house, up to one of its events, page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Log
from turnlog.services.runtime.pages import pages
from turnlog.services.runtime.records import Records


@dataclass(frozen=True, slots=True)
class Taken:
    """Which session, and where it is read."""

    log: Log
    records: Records
    last: Recorded
    at: str
    """When it was asked for, RFC 3339."""

    def pages(self) -> AsyncGenerator[Sequence[Recorded]]:
        """Give its events, a bounded number at a time."""
        return pages(self.log, self.last)


def one_line(recorded: Recorded) -> bytes:
    """Give the very bytes that are stored, as a line; no release writes more than one."""
    if b"\n" in recorded.stored:
        raise Corrupt(f"event {recorded.sequence}", "it has line breaks, which no release writes")
    return recorded.stored + b"\n"
