from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from typing import Final

from turnlog.events.content import Digest, digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.links import Link, link_in, link_of
from turnlog.events.log.ports import Raw
from turnlog.projections.audit.findings import Finding
from turnlog.projections.audit.unread import Unread, why_unread

Key = tuple[str, str]
"""A tenant, and one of its sessions or a family of its library."""
_IN_STREAM: Final = attrgetter("stream_sequence")


@dataclass(frozen=True, slots=True)
class Noted:
    """The head of a session as a checkpoint or a caller noted it earlier."""

    sequence: int
    hash: Digest


@dataclass(slots=True)
class End:
    """The end of a session's chain, as far as it has been read."""

    first: int
    """Stream sequence of the first event."""
    last: int
    """Stream sequence of the last event, decodable or not."""
    sequence: int = 0
    """Sequence of the last event with a readable header; 0 before the first."""
    place: int = 0
    """Stream sequence of that event."""
    hash: Digest = ""
    events: int = 0
    size: int = 0
    """Number of stored bytes so far."""
    noted: bool = False
    """Whether the event of the witnessed head was read."""
    garbled: bool = False
    """Whether undecodable bytes are in the place of the witnessed head."""
    pending: int = 0
    """Number of undecodable events after the last one with a readable header."""

    @property
    def next(self) -> int:
        """The sequence that is due next."""
        return self.sequence + self.pending + 1

    def took(self, place: int, size: int) -> None:
        """Count one stored event."""
        self.last = place
        self.events += 1
        self.size += size


@dataclass(slots=True)
class Chains:
    """Verifies the chains of many sessions side by side."""

    noted: Mapping[Key, Noted] = field(default_factory=dict[Key, Noted])
    ends: dict[Key, End] = field(default_factory=dict[Key, End])

    def taken(self, raw: Raw) -> tuple[Key, Finding] | None:
        """Check the next event of the stream; return the finding and whose it is, or None."""
        key, link, place = key_of(raw.subject), link_of(raw.stored), raw.stream_sequence
        if link is None:
            return key, self._unread(key, raw)
        digest = digest_of(raw.stored)
        found = self.linked(key, link, place, digest, len(raw.stored))
        return (key, found) if found else None

    def _unread(self, key: Key, raw: Raw) -> Finding:
        place = raw.stream_sequence
        end = self.ends.setdefault(key, End(place, place))
        at, noted = end.next, self.noted.get(key)
        end.pending += 1
        end.garbled |= noted is not None and noted.sequence == at
        end.took(place, len(raw.stored))
        detail = f"what stands for it at stream sequence {place} cannot be read: {why_unread(raw)}"
        return Finding("integrity", "log", at, detail)

    def linked(self, key: Key, link: Link, place: int, digest: Digest, size: int) -> Finding | None:
        """Check an event whose chain header was read already."""
        end = self.ends.get(key)
        if end is None:
            end = self.ends[key] = End(place, place)
        found = _broken(key, end, link, place)
        end.took(place, size)
        if link.sequence > end.sequence:
            end.sequence, end.place, end.hash = link.sequence, place, digest
            end.pending = 0
        return found or self._other(key, end)

    def _other(self, key: Key, end: End) -> Finding | None:
        noted = self.noted.get(key)
        if noted is None or noted.sequence != end.sequence or end.noted:
            return None
        end.noted = True
        if noted.hash == end.hash:
            return None
        detail = "its bytes are not those that were noted"
        return Finding("integrity", "noted", end.sequence, detail)

    def missing(self) -> Iterator[tuple[Key, Finding]]:
        """Yield a finding for each witnessed head that was not read; call it after the last event.
        """
        for key, noted in self.noted.items():
            end = self.ends.get(key)
            if end is None or not (end.noted or end.garbled):
                detail = "it was noted, and is not there"
                yield key, Finding("completeness", "noted", noted.sequence, detail)


def _broken(key: Key, end: End, link: Link, place: int) -> Finding | None:
    at, before, due = link.sequence, end.sequence, end.next
    if (link.tenant, link.session) != key:
        return Finding("integrity", "chain", at, f"it belongs to session {link.session[:80]!a}")
    if at > due:
        gone = f"event {due} is" if at == due + 1 else f"events {due} to {at - 1} are"
        return Finding("completeness", "sequence", due, f"{gone} missing before event {at}")
    if at <= before:
        return Finding("integrity", "sequence", at, f"it stands behind event {before}")
    if at > before + 1:
        return None  # It continues an undecodable event, which has a finding of its own.
    if not before:
        odd = link.prevhash is not None
        detail = "it continues an event although it is the first"
        return Finding("integrity", "chain", at, detail) if odd else None
    if link.prevhash != end.hash:
        detail = f"event {at} does not continue its bytes"
        return Finding("integrity", "chain", before, detail)
    if not end.pending and (link.prevstreamseq or place - 1) != end.place:
        return Finding("integrity", "chain", at, f"event {before} does not lie where it says")
    return None


def key_of(subject: str) -> Key:
    """Return the tenant and session from the subject of an event."""
    _, tenant, session, *_ = (*subject.split(".", 3), "", "", "")
    return tenant, session


def broken(
    events: Sequence[Recorded], unread: Sequence[Unread], noted: Noted | None
) -> Iterator[Finding]:
    """Verify the chain of one session, given in stored order, against a head noted earlier."""
    stored: Iterable[Recorded | Raw] = events
    key: Key = (events[0].tenant, events[0].session) if events else ("", "")
    if unread:
        stored = merge(events, (each.raw for each in unread), key=_IN_STREAM)
        key = key_of(unread[0].raw.subject)
    chains = Chains({key: noted} if noted else {})
    for each in stored:
        match each:
            case Recorded(envelope=envelope, head=head):
                place, size = head.stream_sequence, len(each.stored)
                found = chains.linked(key, link_in(envelope), place, head.hash, size)
            case Raw():
                _, found = chains.taken(each) or (key, None)
        if found:
            yield found
    yield from (finding for _, finding in chains.missing())
