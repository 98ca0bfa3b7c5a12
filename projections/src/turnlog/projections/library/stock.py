"""The segment libraries of all tenants, folded from the library stream.

A history that cannot be folded (undecodable bytes, or an event that does not follow the one before
it) stops its own tenant and no other. Later events of that tenant are skipped until a release that
can fold them reads the stream from the beginning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from turnlog.events.codec import read
from turnlog.events.envelope import Head, Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.library import SEGMENTS, understood
from turnlog.events.log.ports import Raw
from turnlog.projections.library.shelf import Segment, Shelf, carried, fold


@dataclass(frozen=True, slots=True)
class Changed:
    """A tenant's library after a batch of events."""

    shelf: Shelf
    segments: tuple[Segment, ...]
    """The segments that the batch changed."""
    stopped: str | None = None
    """Why the history could not be folded further, or None."""


@dataclass(slots=True)
class Stock:
    """The libraries of all tenants."""

    shelves: dict[str, Shelf] = field(default_factory=dict[str, Shelf])
    stopped: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, raws: Iterable[Raw]) -> tuple[Changed, ...]:
        """Apply stored events in order; return a change for each tenant concerned."""
        runs: dict[str, list[Recorded]] = {}
        for raw in raws:
            tenant = _segments_of(raw)
            if tenant is None or tenant in self.stopped:
                continue
            run = runs.setdefault(tenant, [])
            head = run[-1].head if run else self._shelf(tenant).head
            try:
                run.append(_checked(raw, tenant, head))
            except Corrupt as error:
                self.stopped[tenant] = str(error)
        return tuple(self._taken(tenant, run) for tenant, run in runs.items())

    def everything(self) -> tuple[Changed, ...]:
        """Return all segments of all tenants as changes."""
        tenants = {**self.shelves, **self.stopped}
        return tuple(self._changed(each, self._shelf(each).segments) for each in tenants)

    def _shelf(self, tenant: str) -> Shelf:
        return self.shelves.get(tenant) or Shelf(tenant)

    def _taken(self, tenant: str, run: Sequence[Recorded]) -> Changed:
        self.shelves[tenant] = fold(run, self._shelf(tenant))
        came = carried(run)
        return self._changed(tenant, {*came.added, *came.edited})

    def _changed(self, tenant: str, touched: Collection[int]) -> Changed:
        shelf = self._shelf(tenant)
        segments = tuple(one for number, one in shelf.segments.items() if number in touched)
        return Changed(shelf, segments, self.stopped.get(tenant))


def _segments_of(raw: Raw) -> str | None:
    """Return the tenant whose segments the subject is about; None for other subjects."""
    match raw.subject.split("."):
        case ["library", tenant, family, _] if family == SEGMENTS:
            return tenant
        case _:
            return None


def _checked(raw: Raw, tenant: str, head: Head | None) -> Recorded:
    """Decode an event; raise `Corrupt` if it does not follow `head` in this tenant's history."""
    recorded = read(raw.stored, raw.stream_sequence)
    where = f"LIBRARY, stream sequence {raw.stream_sequence}"
    if (recorded.tenant, recorded.session) != (tenant, SEGMENTS):
        raise Corrupt(where, f"says it is of {recorded.tenant}/{recorded.session}")
    due = head.sequence + 1 if head else 1
    if recorded.sequence != due:
        raise Corrupt(where, f"sequence {recorded.sequence} where {due} is due")
    if recorded.envelope.prevhash != (head.hash if head else None):
        raise Corrupt(where, "is not chained to the event before it")
    understood(recorded)
    return recorded
