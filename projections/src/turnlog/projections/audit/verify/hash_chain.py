"""The hash chain: each event of a session continues the stored bytes of the one before it.

It is checked over stored bytes in stream order. Memory is one small record per session, so a log of
any length can be checked. A break is reported at the first event that can be at fault; later events
are checked against the bytes actually before them, so one break is reported once. Bytes that the
codec refuses count as the event that is due, unless that event follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from typing import Final

from turnlog.events.chain_link import ChainHeader, get_chain_header, parse_chain_header
from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import RawEvent
from turnlog.events.stray_messages import (
    decode_unless_stray,
    describe_stray,
    parse_history_key,
)
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.merkle_tree import ConsistencyPath, MerkleTree


@dataclass(frozen=True, slots=True)
class UndecodableEvent:
    """Stored bytes that the codec refuses, with the reason."""

    raw: RawEvent
    detail: str
    """What is wrong with the bytes: `data.text: Field required`."""


def decode_events(
    stored: Iterable[RawEvent],
) -> tuple[tuple[RecordedEvent, ...], tuple[UndecodableEvent, ...]]:
    """Decode stored bytes; return the events and, apart from them, what cannot be decoded."""
    events: list[RecordedEvent] = []
    unread: list[UndecodableEvent] = []
    for raw in stored:
        try:
            event = decode_unless_stray(raw.subject, raw.stored, raw.stream_sequence)
        except Corrupt as error:
            unread.append(UndecodableEvent(raw, error.detail))
            continue
        if event is None:
            unread.append(UndecodableEvent(raw, describe_stray(raw.subject, raw.stored) or ""))
        else:
            events.append(event)
    return tuple(events), tuple(unread)


def describe_undecodable(raw: RawEvent) -> str:
    """Return why bytes without a readable chain header cannot be decoded."""
    _, unread = decode_events((raw,))
    return unread[0].detail if unread else "they do not tell what they continue"


def parse_digest(digest: Digest) -> bytes:
    """Return the bytes of a digest, as trees of digests have them."""
    return bytes.fromhex(digest.removeprefix("sha256:"))


def format_root(root: bytes) -> Digest:
    """Return the root of a tree as a digest."""
    return f"sha256:{root.hex()}"


ChainKey = tuple[str, str]
"""A tenant, and one of its sessions or a family of its library."""

_STREAM_ORDER: Final = attrgetter("stream_sequence")


@dataclass(frozen=True, slots=True)
class WitnessedHead:
    """The head of a session as a checkpoint or a caller noted it earlier."""

    sequence: int
    hash: Digest
    root: Digest | None = None
    """Root of the tree of the events up to there, if it was noted."""


@dataclass(slots=True, kw_only=True)
class ChainEnd:
    """The end of a session's chain, as far as it has been read."""

    first_stream_sequence: int
    """Stream sequence of the first event."""
    last_stream_sequence: int
    """Stream sequence of the last event, decodable or not."""
    sequence: int = 0
    """Sequence of the last event with a readable header; 0 before the first."""
    stream_sequence: int = 0
    """Stream sequence of that event."""
    hash: Digest = ""
    event_count: int = 0
    byte_count: int = 0
    """Number of stored bytes so far."""
    is_witness_seen: bool = False
    """Whether the event of the witnessed head was read."""
    is_witness_undecodable: bool = False
    """Whether undecodable bytes are in the place of the witnessed head."""
    undecodable_count: int = 0
    """Number of undecodable events after the last one with a readable header."""
    tree: MerkleTree | None = None
    """The tree of the events' digests, where its root is wanted."""
    consistency: ConsistencyPath | None = None
    """How the tree grew since the witnessed head, where trees are built for a new checkpoint."""

    @property
    def root(self) -> Digest | None:
        """The root of the tree of all events, where one was built."""
        return format_root(self.tree.compute_root()) if self.tree else None

    @property
    def next_sequence(self) -> int:
        """The sequence that is due next."""
        return self.sequence + self.undecodable_count + 1

    def count_event(self, stream_sequence: int, size: int) -> None:
        """Count one stored event."""
        self.last_stream_sequence = stream_sequence
        self.event_count += 1
        self.byte_count += size


@dataclass(slots=True)
class ChainVerifier:
    """Verifies the chains of many sessions side by side."""

    witnessed_heads: Mapping[ChainKey, WitnessedHead] = field(
        default_factory=dict[ChainKey, WitnessedHead]
    )
    ends: dict[ChainKey, ChainEnd] = field(default_factory=dict[ChainKey, ChainEnd])
    builds_trees: bool = False
    """Whether the tree of each session's events is built; it is where a root of it was noted."""

    def check_event(self, raw: RawEvent) -> tuple[ChainKey, AuditFinding] | None:
        """Check the next event of the stream; return the finding and whose it is, or None."""
        key, link, place = (
            parse_chain_key(raw.subject),
            parse_chain_header(raw.stored),
            raw.stream_sequence,
        )
        if link is None or (link.tenant, link.session) != key:
            return key, self._check_undecodable(key, raw)
        digest = compute_digest(raw.stored)
        found = self.check_link(
            key=key, link=link, stream_sequence=place, digest=digest, size=len(raw.stored)
        )
        return (key, found) if found else None

    def _check_undecodable(self, key: ChainKey, raw: RawEvent) -> AuditFinding:
        place = raw.stream_sequence
        end = self.ends.setdefault(
            key, ChainEnd(first_stream_sequence=place, last_stream_sequence=place)
        )
        at, noted = end.next_sequence, self.witnessed_heads.get(key)
        end.undecodable_count += 1
        end.is_witness_undecodable |= noted is not None and noted.sequence == at
        end.count_event(place, len(raw.stored))
        reason = describe_undecodable(raw)
        detail = f"the message at stream sequence {place} is no event: {reason}"
        return AuditFinding("integrity", "log", at, detail)

    def check_link(
        self, key: ChainKey, link: ChainHeader, stream_sequence: int, digest: Digest, size: int
    ) -> AuditFinding | None:
        """Check an event whose chain header was read already."""
        end = self.ends.get(key)
        if end is None:
            noted = self.witnessed_heads.get(key)
            has_tree = self.builds_trees or (noted is not None and noted.root is not None)
            end = self.ends[key] = ChainEnd(
                first_stream_sequence=stream_sequence,
                last_stream_sequence=stream_sequence,
                tree=MerkleTree() if has_tree else None,
            )
        found = _check_continuity(key, end, link, stream_sequence)
        end.count_event(stream_sequence, size)
        if link.sequence > end.sequence:
            end.sequence, end.stream_sequence, end.hash = link.sequence, stream_sequence, digest
            end.undecodable_count = 0
            if end.tree is not None:
                self._grow_tree(key, end, end.tree)
        return found or self._compare_witness(key, end)

    def _grow_tree(self, key: ChainKey, end: ChainEnd, tree: MerkleTree) -> None:
        entry = parse_digest(end.hash)
        tree.add_entry(entry)
        if end.consistency is not None:
            end.consistency.add_entry(entry)
        elif self.builds_trees:
            noted = self.witnessed_heads.get(key)
            if noted is not None and noted.sequence == tree.size:
                end.consistency = ConsistencyPath(tuple(tree.subtrees), tree.size)

    def _compare_witness(self, key: ChainKey, end: ChainEnd) -> AuditFinding | None:
        noted = self.witnessed_heads.get(key)
        if noted is None or noted.sequence != end.sequence or end.is_witness_seen:
            return None
        end.is_witness_seen = True
        if noted.hash != end.hash:
            detail = "its bytes differ from the noted digest"
        elif end.tree and end.tree.size == end.sequence and noted.root not in {None, end.root}:
            detail = "the events up to it are not those of the noted root"
        else:
            return None
        return AuditFinding("integrity", "noted", end.sequence, detail)

    def find_missing(self) -> Iterator[tuple[ChainKey, AuditFinding]]:
        """Yield a finding for each witnessed head that was not read.

        Call it after the last event.
        """
        for key, noted in self.witnessed_heads.items():
            end = self.ends.get(key)
            if end is None or not (end.is_witness_seen or end.is_witness_undecodable):
                detail = "it was noted and is missing"
                yield key, AuditFinding("completeness", "noted", noted.sequence, detail)


def _check_continuity(
    key: ChainKey, end: ChainEnd, link: ChainHeader, stream_sequence: int
) -> AuditFinding | None:
    at, before, due = link.sequence, end.sequence, end.next_sequence
    if (link.tenant, link.session) != key:
        return AuditFinding(
            "integrity", "chain", at, f"it belongs to session {link.session[:80]!a}"
        )
    if at > due:
        gap = f"event {due} is" if at == due + 1 else f"events {due} to {at - 1} are"
        return AuditFinding("completeness", "sequence", due, f"{gap} missing before event {at}")
    if at <= before:
        return AuditFinding("integrity", "sequence", at, f"it stands behind event {before}")
    if at > before + 1:
        return None  # It continues an undecodable event, which has a finding of its own.
    if not before:
        has_previous = link.prevhash is not None
        detail = "it continues an event although it is the first"
        return AuditFinding("integrity", "chain", at, detail) if has_previous else None
    if link.prevhash != end.hash:
        detail = f"event {at} does not continue its bytes"
        return AuditFinding("integrity", "chain", before, detail)
    if (
        not end.undecodable_count
        and (link.prevstreamseq or stream_sequence - 1) != end.stream_sequence
    ):
        return AuditFinding("integrity", "chain", at, f"event {before} does not lie where it says")
    return None


def parse_chain_key(subject: str) -> ChainKey:
    """Return the tenant and session from the subject of an event."""
    return parse_history_key(subject)


def verify_chain(
    events: Sequence[RecordedEvent],
    undecodable: Sequence[UndecodableEvent],
    witnessed_head: WitnessedHead | None,
) -> Iterator[AuditFinding]:
    """Verify the chain of one session, given in stored order, against a head noted earlier."""
    stored: Iterable[RecordedEvent | RawEvent] = events
    key: ChainKey = (events[0].tenant, events[0].session) if events else ("", "")
    if undecodable:
        stored = merge(events, (each.raw for each in undecodable), key=_STREAM_ORDER)
        key = parse_chain_key(undecodable[0].raw.subject)
    chains = ChainVerifier({key: witnessed_head} if witnessed_head else {})
    for each in stored:
        match each:
            case RecordedEvent(envelope=envelope, head=head):
                place, size = head.stream_sequence, len(each.stored)
                found = chains.check_link(
                    key=key,
                    link=get_chain_header(envelope),
                    stream_sequence=place,
                    digest=head.hash,
                    size=size,
                )
            case RawEvent():
                _, found = chains.check_event(each) or (key, None)
        if found:
            yield found
    yield from (finding for _, finding in chains.find_missing())
