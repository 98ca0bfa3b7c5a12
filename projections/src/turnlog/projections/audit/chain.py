"""The chain: every event of a session continues the stored bytes of the one before it.

It is checked over stored bytes in stream order, one small end a session, so that a log of any
length takes little memory. A break is named by the first event that can be at fault; what comes
after it is checked against what really stands before it, so one break is found once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from turnlog.events.content import Digest, digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.links import Link, link_in, link_of
from turnlog.events.log.ports import Raw
from turnlog.projections.audit.findings import Finding

Key = tuple[str, str]
"""A tenant, and a session of its or a family of its library."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A session's head as somebody wrote it down at an earlier time."""

    sequence: int
    hash: Digest


@dataclass(slots=True)
class End:
    """Where a session ends, as far as it was looked at."""

    sequence: int
    place: int
    hash: Digest
    first: int
    """Where its first event lies in the stream."""
    events: int = 0
    size: int = 0
    """Stored bytes so far."""
    noted: bool = False
    """Whether what was noted of it has been seen."""


@dataclass(slots=True)
class Chains:
    """The chains of many sessions, looked at side by side."""

    noted: Mapping[Key, Noted] = field(default_factory=dict[Key, Noted])
    ends: dict[Key, End] = field(default_factory=dict[Key, End])

    def taken(self, raw: Raw) -> tuple[Key, Finding] | None:
        """Take the next event of the stream; give what is wrong with it."""
        key, link = key_of(raw.subject), link_of(raw.stored)
        if link is None:
            detail = f"stream sequence {raw.stream_sequence} holds no event"
            return key, Finding("integrity", "log", None, detail)
        found = self.linked(key, link, raw.stream_sequence, raw.stored)
        return (key, found) if found else None

    def linked(self, key: Key, link: Link, place: int, stored: bytes) -> Finding | None:
        """Take an event whose link was read."""
        end = self.ends.get(key)
        found = _broken(key, end, link, place)
        digest = digest_of(stored)
        if end is None:
            end = self.ends[key] = End(link.sequence, place, digest, first=place)
        elif link.sequence > end.sequence:
            end.sequence, end.place, end.hash = link.sequence, place, digest
        end.events += 1
        end.size += len(stored)
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
        """Give what was noted and did not come, once everything has been taken."""
        for key, noted in self.noted.items():
            end = self.ends.get(key)
            if end is None or not end.noted:
                detail = "it was noted, and is not there"
                yield key, Finding("completeness", "noted", noted.sequence, detail)


def _broken(key: Key, end: End | None, link: Link, place: int) -> Finding | None:
    at, before = link.sequence, end.sequence if end else 0
    if (link.tenant, link.session) != key:
        return Finding("integrity", "chain", at, f"it belongs to session {link.session[:80]!a}")
    if at > before + 1:
        gone = (
            f"event {before + 1} is" if at == before + 2 else f"events {before + 1} to {at - 1} are"
        )
        return Finding("completeness", "sequence", before + 1, f"{gone} missing before event {at}")
    if at <= before:
        return Finding("integrity", "sequence", at, f"it stands behind event {before}")
    if end is None:
        odd = link.prevhash is not None
        detail = "it continues an event although it is the first"
        return Finding("integrity", "chain", at, detail) if odd else None
    if link.prevhash != end.hash:
        detail = f"event {at} does not continue its bytes"
        return Finding("integrity", "chain", before, detail)
    if (link.prevstreamseq or place - 1) != end.place:
        return Finding("integrity", "chain", at, f"event {before} does not lie where it says")
    return None


def key_of(subject: str) -> Key:
    """Read whose an event is from the subject it lies under."""
    _, tenant, session, *_ = (*subject.split(".", 3), "", "", "")
    return tenant, session


def broken(events: Iterable[Recorded], noted: Noted | None) -> Iterator[Finding]:
    """Check the events of one session, given in stored order, and a head noted of it."""
    chains: Chains | None = None
    key: Key = ("", "")
    for each in events:
        if chains is None:
            key = (each.tenant, each.session)
            chains = Chains({key: noted} if noted else {})
        link = link_in(each.envelope)
        if found := chains.linked(key, link, each.stream_sequence, each.stored):
            yield found
    absent = chains or Chains({key: noted} if noted else {})
    yield from (finding for _, finding in absent.missing())
