"""A session that is taken out of the house, up to one of its events, page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from turnlog.events.envelope import Recorded
from turnlog.events.log.ports import Log
from turnlog.projections.audit.chain import Key
from turnlog.services.runtime.pages import Told, pages
from turnlog.services.runtime.records import Records


@dataclass(frozen=True, slots=True)
class Taken:
    """Which session, and where it is read."""

    log: Log
    records: Records
    key: Key
    last: Recorded | None
    """None where its end cannot be read."""
    at: str
    """When it was asked for, RFC 3339."""

    def pages(self) -> AsyncGenerator[Sequence[Told]]:
        """Give its events, a bounded number at a time."""
        return pages(self.log, self.key, self.last)


def one_line(told: Told) -> bytes:
    """Give the very bytes that are stored, as a line; no release writes more than one."""
    return told.stored + b"\n"
