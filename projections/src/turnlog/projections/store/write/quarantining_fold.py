"""Folds stored bytes into row changes, or puts them into quarantine with a reason. Pure.

An event is folded only if it directly follows what the rows hold of its session, by sequence and by
the digest of the event before it. An event that does not follow, cannot be decoded, or triggers a
bug stops its own session and no other. Later events of that session are held back until they are
replayed. No event is dropped. A stray message is noted and stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from traceback import extract_tb

from turnlog.events.chain_link import find_chain_break
from turnlog.events.codec import decode_event
from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.store.ports import RawEvent
from turnlog.events.stray_messages import describe_stray
from turnlog.projections.store.schema.read_model_tables import QUARANTINE, STRAY_MESSAGES
from turnlog.projections.store.write.event_rows import build_changes, build_session_end
from turnlog.projections.store.write.row_changes import (
    ColumnValues,
    MergedChanges,
    PutRow,
    RowChange,
)

SessionOwner = tuple[str, str]
"""Tenant and session."""


@dataclass(frozen=True, slots=True)
class SessionTail:
    """The last folded event of a session."""

    sequence: int
    hash: Digest


@dataclass(frozen=True, slots=True)
class SessionEnds:
    """How far sessions are folded; one that is not named has no rows."""

    tails: Mapping[SessionOwner, SessionTail]
    halted: AbstractSet[SessionOwner]
    """The sessions that are stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonEvent:
    """An event that stopped its session."""

    tenant: str
    session: str
    position: int
    reason: str
    is_chained: bool
    """False if it does not follow the rows: they may come from another log."""


@dataclass(frozen=True, slots=True)
class StrayMessage:
    """A message under a session's subjects that is no event of it."""

    owner: SessionOwner
    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class FoldResult:
    """The changes of a batch of events, and the events that stopped their sessions."""

    changes: MergedChanges
    poisons: tuple[PoisonEvent, ...]
    strays: tuple[StrayMessage, ...]
    traceparents: frozenset[str]
    """The trace contexts in which the events were written."""


class _ChainBroken(Corrupt):
    """The event does not follow the last folded event of its session."""


@dataclass(frozen=True, slots=True)
class DecodedEvent:
    """Bytes from the log with the decoded event, or the error of decoding them."""

    raw: RawEvent
    event: RecordedEvent | Corrupt
    owner: SessionOwner
    """Tenant and session by the subject the bytes are stored under; the bytes may claim otherwise.
    """


def decode_raw_event(raw: RawEvent) -> DecodedEvent:
    """Decode stored bytes; an error is part of the result."""
    event: RecordedEvent | Corrupt
    try:
        event = decode_event(raw.stored, raw.stream_sequence)
    except Corrupt as error:
        event = error
    return DecodedEvent(raw, event, parse_owner(raw.subject))


def parse_owner(subject: str) -> SessionOwner:
    """Return the session that an event belongs to by its subject."""
    match subject.split("."):
        case ["session", tenant, session, _, *_]:
            return tenant, session
        case _:
            return "", subject[:256]


def fold_events(
    events: Iterable[DecodedEvent], before: SessionEnds, refused: Mapping[int, str]
) -> FoldResult:
    """Fold events in stored order, each of which is taken after the one before it is folded.

    `refused` has reasons, by stream sequence, for events whose values the database refuses.
    """
    folding = _FoldState(tails=dict(before.tails), halted=set(before.halted), refused=refused)
    for event in events:
        folding.fold_event(event.raw, event.owner, event.event)
    for owner, last in folding.last_events.items():
        folding.changes.add_change(build_session_end(last, folding.tails[owner].hash))
    return FoldResult(
        folding.changes,
        tuple(folding.poisons),
        tuple(folding.strays),
        frozenset(folding.traceparents),
    )


@dataclass(slots=True, kw_only=True)
class _FoldState:
    tails: dict[SessionOwner, SessionTail]
    halted: set[SessionOwner]
    refused: Mapping[int, str]
    last_events: dict[SessionOwner, RecordedEvent] = field(
        default_factory=dict[SessionOwner, RecordedEvent]
    )
    changes: MergedChanges = field(default_factory=MergedChanges)
    poisons: list[PoisonEvent] = field(default_factory=list[PoisonEvent])
    strays: list[StrayMessage] = field(default_factory=list[StrayMessage])
    traceparents: set[str] = field(default_factory=set[str])

    def fold_event(
        self, raw: RawEvent, owner: SessionOwner, event: RecordedEvent | Corrupt
    ) -> None:
        if (reason := _find_stray_reason(raw, owner, event)) is not None:
            self.strays.append(StrayMessage(owner, raw.stream_sequence, reason))
            self.changes.add_change(_build_stray_row(raw, owner, reason))
            return
        if not isinstance(event, Corrupt) and event.envelope.traceparent:
            self.traceparents.add(event.envelope.traceparent)
        if owner in self.halted:
            self.changes.add_change(_build_quarantine_row(raw, owner, None))
            return
        try:
            recorded = _check_event(event, self.tails.get(owner))
            made = tuple(build_changes(recorded))
        except Exception as error:  # noqa: BLE001 a bug may stop one session, never all
            self._stop_session(
                raw, owner, _describe_error(error), chained=not isinstance(error, _ChainBroken)
            )
            return
        if reason := self.refused.get(raw.stream_sequence):
            self._stop_session(raw, owner, reason, chained=True)
            return
        for change in made:
            self.changes.add_change(change)
        self.tails[owner] = SessionTail(recorded.sequence, compute_digest(raw.stored))
        self.last_events[owner] = recorded

    def _stop_session(
        self, raw: RawEvent, owner: SessionOwner, reason: str, *, chained: bool
    ) -> None:
        self.halted.add(owner)
        tenant, session = owner
        poison = PoisonEvent(
            tenant=tenant,
            session=session,
            position=raw.stream_sequence,
            reason=reason,
            is_chained=chained,
        )
        self.poisons.append(poison)
        self.changes.add_change(_build_quarantine_row(raw, owner, reason))


def _find_stray_reason(
    raw: RawEvent, owner: SessionOwner, event: RecordedEvent | Corrupt
) -> str | None:
    """Return why a message is a stray one; an event of this session is recognised at once."""
    if isinstance(event, RecordedEvent) and (event.tenant, event.session) == owner:
        return None
    return describe_stray(raw.subject, raw.stored)


def _check_event(recorded: RecordedEvent | Corrupt, tail: SessionTail | None) -> RecordedEvent:
    if isinstance(recorded, Corrupt):
        raise recorded
    place = f"stream sequence {recorded.stream_sequence}"
    last = (tail.sequence, tail.hash) if tail else (0, None)
    if fault := find_chain_break(recorded, *last):
        raise _ChainBroken(place, fault)
    if tail is None and not isinstance(recorded.event, SessionOpened):
        raise Corrupt(place, f"{recorded.envelope.type} opens no session that is known here")
    return recorded


def _describe_error(error: Exception) -> str:
    """Describe an error without the values that caused it."""
    if isinstance(error, Corrupt):
        return str(error)
    place = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {place.name}, line {place.lineno}"


def _build_stray_row(raw: RawEvent, owner: SessionOwner, reason: str) -> RowChange:
    return PutRow(STRAY_MESSAGES, (*owner, raw.stream_sequence), {"reason": reason})


def _build_quarantine_row(raw: RawEvent, owner: SessionOwner, reason: str | None) -> RowChange:
    key = (*owner, raw.stream_sequence)
    values: ColumnValues = {"subject": raw.subject, "reason": reason, "stored": raw.stored}
    return PutRow(QUARANTINE, key, values)
