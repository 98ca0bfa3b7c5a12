"""Folds stored bytes into row changes, or puts them into quarantine with a reason. Pure.

An event is folded only if it directly follows what the rows hold of its session, by sequence and by
the digest of the event before it. An event that does not follow, cannot be decoded, or triggers a
bug stops its own session and no other. Later events of that session are held back until they are
replayed. No event is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from traceback import extract_tb

from turnlog.events.codec import read
from turnlog.events.content import Digest, digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Raw
from turnlog.events.session import SessionOpened
from turnlog.projections.store.apply import changes, ending
from turnlog.projections.store.changes import Change, Put, Values
from turnlog.projections.store.tables import QUARANTINE

Owner = tuple[str, str]
"""Tenant and session."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The last folded event of a session."""

    sequence: int
    hash: Digest


@dataclass(frozen=True, slots=True)
class Poison:
    """An event that stopped its session."""

    tenant: str
    session: str
    position: int
    reason: str
    chained: bool
    """False if it does not follow the rows: they may come from another log."""


@dataclass(frozen=True, slots=True)
class Folded:
    """The changes of a batch of events, and the events that stopped their sessions."""

    changes: tuple[Change, ...]
    poisons: tuple[Poison, ...]


class _Unchained(Corrupt):
    """The event does not follow the last folded event of its session."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """Bytes from the log with the decoded event, or the error of decoding them."""

    raw: Raw
    event: Recorded | Corrupt
    owner: Owner
    """Tenant and session by the subject the bytes are stored under; the bytes may claim otherwise.
    """

    @property
    def traceparent(self) -> str | None:
        """The trace context in which the event was written."""
        return None if isinstance(self.event, Corrupt) else self.event.envelope.traceparent


def arrived(raw: Raw) -> Arrived:
    """Decode stored bytes; an error is part of the result."""
    event: Recorded | Corrupt
    try:
        event = read(raw.stored, raw.stream_sequence)
    except Corrupt as error:
        event = error
    return Arrived(raw, event, _owner(raw.subject))


def _owner(subject: str) -> Owner:
    match subject.split("."):
        case ["session", tenant, session, _, *_]:
            return tenant, session
        case _:
            return "", subject[:256]


def fold(
    events: Iterable[Arrived],
    tails: Mapping[Owner, Tail],
    halted: Iterable[Owner],
    refused: Mapping[int, str],
) -> Folded:
    """Fold events in stored order.

    `tails` and `halted` describe the sessions concerned as the rows have them. `refused` has
    reasons, by stream sequence, for events whose values the database refuses.
    """
    folding = _Folding(dict(tails), set(halted), refused)
    for event in events:
        folding.take(event.raw, event.owner, event.event)
    ends = (ending(last, folding.tails[owner].hash) for owner, last in folding.ends.items())
    return Folded((*folding.changes, *ends), tuple(folding.poisons))


@dataclass(slots=True)
class _Folding:
    tails: dict[Owner, Tail]
    halted: set[Owner]
    refused: Mapping[int, str]
    ends: dict[Owner, Recorded] = field(default_factory=dict[Owner, Recorded])
    changes: list[Change] = field(default_factory=list[Change])
    poisons: list[Poison] = field(default_factory=list[Poison])

    def take(self, raw: Raw, owner: Owner, event: Recorded | Corrupt) -> None:
        if owner in self.halted:
            self.changes.append(_quarantined(raw, owner, None))
            return
        try:
            recorded = _checked(event, owner, self.tails.get(owner))
            made = tuple(changes(recorded))
        except Exception as error:  # noqa: BLE001 a bug may stop one session, never all
            self._halt(raw, owner, _reason(error), chained=not isinstance(error, _Unchained))
            return
        if reason := self.refused.get(raw.stream_sequence):
            self._halt(raw, owner, reason, chained=True)
            return
        self.changes += made
        self.tails[owner] = Tail(recorded.sequence, digest_of(raw.stored))
        self.ends[owner] = recorded

    def _halt(self, raw: Raw, owner: Owner, reason: str, *, chained: bool) -> None:
        self.halted.add(owner)
        self.poisons.append(Poison(*owner, raw.stream_sequence, reason, chained))
        self.changes.append(_quarantined(raw, owner, reason))


def _checked(recorded: Recorded | Corrupt, owner: Owner, tail: Tail | None) -> Recorded:
    if isinstance(recorded, Corrupt):
        raise recorded
    where = f"stream sequence {recorded.stream_sequence}"
    if (recorded.tenant, recorded.session) != owner:
        raise Corrupt(where, f"says it is of {recorded.tenant}/{recorded.session}")
    due = tail.sequence + 1 if tail else 1
    if recorded.sequence != due:
        raise _Unchained(where, f"sequence {recorded.sequence} where {due} is due")
    if recorded.envelope.prevhash != (tail.hash if tail else None):
        raise _Unchained(where, "is not chained to the event before it")
    if tail is None and not isinstance(recorded.event, SessionOpened):
        raise Corrupt(where, f"{recorded.envelope.type} opens no session that is known here")
    return recorded


def _reason(error: Exception) -> str:
    """Describe an error without the values that caused it."""
    if isinstance(error, Corrupt):
        return str(error)
    place = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {place.name}, line {place.lineno}"


def _quarantined(raw: Raw, owner: Owner, reason: str | None) -> Change:
    key = (*owner, raw.stream_sequence)
    values: Values = {"subject": raw.subject, "reason": reason, "stored": raw.stored}
    return Put(QUARANTINE, key, values)
