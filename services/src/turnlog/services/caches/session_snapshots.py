"""Snapshots of session states, each checked against the log before it is used.

A snapshot is believed only with a keyed digest of a process that has the same key: any other
writer of the store could put in a state that the log never led to. It also records the log it was
folded from, its last event and the version of the fold. One that does not match is discarded, and
the session is folded from an earlier state or from its first event; a mismatch with the log is also
logged as an error.

Interval snapshots are stored at fixed sequences and never overwritten, so that any old sequence has
one near it. The process that appends past an interval saves one, and a reader saves those that it
finds missing. They lack the idempotency keys of commands, so no command may be decided on them.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Final

import structlog
from pydantic import SecretStr, TypeAdapter, ValidationError

from turnlog.events.content import is_keyed
from turnlog.events.envelope import ChainHead
from turnlog.events.errors import Corrupt, TooLarge
from turnlog.events.seals.key_ports import SealingKeys
from turnlog.events.seals.leaf_sets import is_sealed_text
from turnlog.events.store.ports import EventLog, LogIdentity, SnapshotStore
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.state import FOLD_VERSION, SessionState
from turnlog.services.platform.process_settings import AllInOneSettings
from turnlog.services.platform.whole_files import write_private_file

# Loading the snapshot of a session of 1,201 events takes below 1 ms of processor time. Folding it
# from its first event, at the 25,100 events/s of `python -m benchmarks reading`, takes 48 ms.
SNAPSHOT_INTERVAL: Final = 64
"""Events between two snapshots of a session's latest state."""

_log = structlog.get_logger("turnlog.snapshots")

KEY_FILE: Final = "snapshot-key"
"""Name of the key file in a data directory."""

_KEY_FORM: Final = re.compile("[0-9a-f]{64}")

MAX_SNAPSHOT_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a snapshot; its compressed form says nothing about it."""

_DIGEST_BYTES: Final = hashlib.sha256().digest_size


def apply_directory_key(settings: AllInOneSettings, *, creating: bool) -> AllInOneSettings:
    """Return the settings with the snapshot key of their data directory, unless they have one.

    With `creating` a key that is missing or damaged is replaced, and what was stored under it is
    folded again; a mere reader goes without. The caller has locked the directory.
    """
    if settings.snapshot_key:
        return settings
    file = settings.data_dir / KEY_FILE
    key = _read_key(file)
    if key is None and creating:
        key = _create_key(file)
    return settings.model_copy(update={"snapshot_key": SecretStr(key)}) if key else settings


def _read_key(file: Path) -> str | None:
    """Return the key of a file; None if there is none, or one that no release has written."""
    if not file.exists():
        return None
    key = file.read_text(errors="replace").strip()
    return key if _KEY_FORM.fullmatch(key) else None


def _create_key(file: Path) -> str:
    place = str(file.absolute())
    if file.exists():
        _log.warning("snapshot-key-replaced", file=place)
    else:
        _log.info("snapshot-key-created", file=place)
    key = secrets.token_hex(32)
    write_private_file(file, f"{key}\n")
    return key


def create_process_key() -> str:
    """Return a key that no other process knows, for one that was given none."""
    return secrets.token_hex(32)


@dataclass(frozen=True, slots=True)
class AuthenticatedSnapshotStore:
    """Compresses snapshots, and returns only those that a process with the same key has put.

    The digest covers the place, so that a snapshot cannot pass for that of another session.
    """

    store: SnapshotStore
    key: str = field(repr=False)

    async def put_snapshot(
        self, tenant: str, session: str, data: bytes, interval: int | None = None
    ) -> None:
        """See `SnapshotStore.put_snapshot`."""
        if len(data) > MAX_SNAPSHOT_BYTES:
            raise TooLarge("snapshot", len(data), MAX_SNAPSHOT_BYTES)
        packed = zlib.compress(data)
        digest = self._compute_digest((tenant, session, interval), packed)
        await self.store.put_snapshot(tenant, session, digest + packed, interval)

    async def get_snapshot(
        self, tenant: str, session: str, interval: int | None = None
    ) -> bytes | None:
        """See `SnapshotStore.get_snapshot`."""
        stored = await self.store.get_snapshot(tenant, session, interval)
        if stored is None:
            return None
        digest, packed = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        expected = self._compute_digest((tenant, session, interval), packed)
        return _unpack_bounded(packed) if hmac.compare_digest(digest, expected) else None

    def _compute_digest(self, place: tuple[str, str, int | None], packed: bytes) -> bytes:
        # Ids contain no blanks, so the text before the line break names one place only.
        message = b"turnlog snapshot %s\n%b" % (" ".join(map(str, place)).encode(), packed)
        return hmac.digest(self.key.encode(), message, "sha256")


def _unpack_bounded(packed: bytes) -> bytes | None:
    """Return what was compressed, unless it is larger than any snapshot."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, MAX_SNAPSHOT_BYTES)
    except zlib.error:
        return None
    return data if unpacker.eof else None


@dataclass(frozen=True, slots=True)
class SealedSnapshotStore:
    """Seals the snapshots of sealed sessions, whose states have attributes and other words.

    They have something of every turn, so they are under all keys that the session still has:
    whatever is erased, no earlier snapshot of it can be opened.
    """

    store: SnapshotStore
    keys: SealingKeys | None

    async def put_snapshot(
        self, tenant: str, session: str, data: bytes, interval: int | None = None
    ) -> None:
        """See `SnapshotStore.put_snapshot`."""
        if self.keys and await self.keys.has_record(tenant, session):
            data = await self.keys.seal_session_text(tenant, session, _SNAPSHOT_NAME, data)
        await self.store.put_snapshot(tenant, session, data, interval)

    async def get_snapshot(
        self, tenant: str, session: str, interval: int | None = None
    ) -> bytes | None:
        """See `SnapshotStore.get_snapshot`; None for a sealed one that this process cannot open."""
        stored = await self.store.get_snapshot(tenant, session, interval)
        if stored is None or not is_sealed_text(stored):
            return stored
        try:
            return await self.keys.open_text(tenant, _SNAPSHOT_NAME, stored) if self.keys else None
        except Corrupt:
            return None


_SNAPSHOT_NAME: Final = "snapshot"


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A state, and the log and fold version that it was folded with."""

    stream: str
    created: str
    fold: int
    state: SessionState


_SNAPSHOT_ADAPTER: Final = TypeAdapter(StateSnapshot)


@dataclass(frozen=True, slots=True)
class CheckedSnapshotStore:
    """Saves snapshots, and loads those that the log confirms."""

    log: EventLog
    store: SnapshotStore

    async def save_state(self, state: SessionState, interval_number: int | None = None) -> None:
        """Save a state as its session's latest snapshot, or as one of its interval snapshots.

        One that has words of a sealed library is not saved: a snapshot is under no keys of that.
        """
        if _has_library_words(state):
            return
        identity = await self.log.get_identity(state.tenant)
        snapshot = StateSnapshot(identity.stream, identity.created, FOLD_VERSION, state)
        data = _SNAPSHOT_ADAPTER.dump_json(snapshot)
        try:
            await self.store.put_snapshot(state.tenant, state.session, data, interval_number)
        except TooLarge as refusal:  # A snapshot only saves time.
            place = {"tenant": state.tenant, "session": state.session}
            _log.warning("snapshot-not-saved", detail=refusal.detail, **place)

    async def load_state(
        self, tenant: str, session: str, interval_number: int | None = None
    ) -> SessionState | None:
        """Return the state of the latest or of an interval snapshot, if the log confirms it."""
        stored, identity = await asyncio.gather(
            self.store.get_snapshot(tenant, session, interval_number), self.log.get_identity(tenant)
        )
        if stored is None:
            return None
        try:
            snapshot = _SNAPSHOT_ADAPTER.validate_json(stored)
        except ValidationError:
            return None  # Written by a release with another fold.
        if snapshot.fold != FOLD_VERSION:
            return None
        if not await self._is_confirmed_by_log(snapshot, identity):
            _log.error("snapshot-discarded", tenant=tenant, session=session)
            return None
        return snapshot.state

    async def _is_confirmed_by_log(self, snapshot: StateSnapshot, identity: LogIdentity) -> bool:
        if (snapshot.stream, snapshot.created) != (identity.stream, identity.created):
            return False
        return await has_event(self.log, snapshot.state.tenant, snapshot.state.head)


def _has_library_words(state: SessionState) -> bool:
    """Return whether a state has titles of entries whose text is sealed, as an open turn may."""
    retrievals = state.open.retrievals if state.open else ()
    return any(is_keyed(entry.digest) for made in retrievals for entry in made.entries)


async def has_event(log: EventLog, tenant: str, head: ChainHead) -> bool:
    """Return whether the log has exactly this event at its stream position."""
    try:
        (event,) = await log.read_events_at(tenant, [head.stream_sequence])
    except Corrupt:
        return False
    return event.head == head


# Latest and interval snapshots do different jobs: only the latest has the idempotency keys that
# deciding needs, and only intervals reach the past. `python -m benchmarks travel` has any state of
# a session of 10,000 turns, some 60,000 events, in 25 ms; folding it from the start at the 25,100
# events/s of `python -m benchmarks reading` would take over two seconds.
INTERVAL_LENGTH: Final = 128
"""Events between two interval snapshots: the most that a read in the past has to fold."""

INTERVAL_LOOKUP_BATCH: Final = 32
"""Interval snapshots looked up at a time where a session has few of them."""


def has_crossed_interval(before: SessionState | None, after: SessionState) -> bool:
    """Return whether an interval boundary lies between two states of a session."""
    since = before.head.sequence if before else 0
    return since // INTERVAL_LENGTH < after.head.sequence // INTERVAL_LENGTH


def remove_command_keys(state: SessionState) -> SessionState:
    """Return a state without the idempotency keys, which only deciding needs."""
    return replace(state, commands=(), forgotten_commands=0)


@dataclass(frozen=True, slots=True)
class IntervalSnapshots:
    """Saves and finds interval snapshots."""

    snapshots: CheckedSnapshotStore

    async def save_state(self, state: SessionState) -> None:
        """Save a state as the snapshot of its interval."""
        await self.snapshots.save_state(
            remove_command_keys(state), state.head.sequence // INTERVAL_LENGTH
        )

    async def find_state(self, tenant: str, session: str, at: int) -> SessionState | None:
        """Return the nearest saved state at or before a sequence, or None."""
        for numbers in _iterate_interval_batches(at // INTERVAL_LENGTH):
            loads = (self.snapshots.load_state(tenant, session, number) for number in numbers)
            for state in await asyncio.gather(*loads):
                if state and state.head.sequence <= at:
                    return state
        return None


def _iterate_interval_batches(number: int) -> Iterator[range]:
    """Yield interval numbers downwards: the first two singly, then in batches."""
    for step in chain((1, 1), repeat(INTERVAL_LOOKUP_BATCH)):
        if number <= 0:
            return
        yield range(number, max(0, number - step), -1)
        number -= step
