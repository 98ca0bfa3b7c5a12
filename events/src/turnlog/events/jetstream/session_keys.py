"""The keys of sealed sessions: one record for each session in the stream KEYS, and who opens by it.

A record is stored before the session is opened and holds the tree of its keys, wrapped under the
keyring. Removing keys replaces it by a record that lacks them, and has the server overwrite the
bytes of the earlier one; every process hears of it and forgets what it has in memory. Whatever a
process reads on its connection passes here: the bytes of a sealed event get their key, and all
others are left as they are.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from nats.aio.msg import Msg
from pydantic import BaseModel
from pydantic_core import to_json

from turnlog.events.content import KEYED_DIGEST, Digest, compute_digest
from turnlog.events.errors import Corrupt, KeysErased, Unavailable
from turnlog.events.jetstream.direct_get import get_last_message, get_next_message
from turnlog.events.jetstream.js_api import (
    IN_FLIGHT_CODE,
    JsApiError,
    request_json,
    store_behind,
)
from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    open_subscription,
    wait_backoff,
)
from turnlog.events.seals.boxes import BoxAltered, open_box, seal_box
from turnlog.events.seals.event_boxes import EventSeal
from turnlog.events.seals.kept_keys import KeptKey, compute_kept_digest, list_kept_keys
from turnlog.events.seals.key_ports import RemovedKeys
from turnlog.events.seals.key_tree import (
    BOX_PURPOSE,
    EMPTY_TREE,
    KEY_BYTES,
    LEAF_COUNT,
    KeyTree,
    LeafErased,
    derive_box_key,
)
from turnlog.events.seals.keyrings import KeyringUnfit, SealKeyring, WrappedKeys
from turnlog.events.seals.leaf_sets import (
    NAMES_ID,
    SEALED_TEXT,
    UPLOADS_ID,
    LeafSets,
    format_leaf_runs,
    format_leaves,
    parse_leaf_runs,
)
from turnlog.events.seals.media_seals import (
    UPLOADS_LEAVES,
    MediaSeal,
    build_text_place,
    derive_media_seal,
    name_upload,
)
from turnlog.events.seals.person_names import PseudonymKey
from turnlog.events.seals.sealed_payload import SealedHeader, SealedPayload, parse_sealed_header
from turnlog.events.seals.written_events import WrittenEvents
from turnlog.events.store.media_chunks import is_chunk_list, parse_chunk_list
from turnlog.events.subjects import (
    ALL_KEY_SUBJECTS,
    BLOBS_STREAM,
    KEYS_STREAM,
    build_blob_subject,
    build_key_subject,
    build_media_subject,
    build_sealed_text_subject,
    name_sealed_item,
)

MAX_CACHED_RECORDS: Final = 4_096
"""Sessions whose keys a process holds in memory."""

MAX_CACHED_KEYS: Final = 4_096
"""Keys of boxes that a process holds in memory; what reads an event after its writer finds one."""

MAX_KEY_REQUESTS: Final = 64
"""Concurrent requests for records."""

_log = logging.getLogger(__name__)

_NAMES_LEAVES: Final = format_leaves({NAMES_ID: frozenset({LEAF_COUNT - 1})})

_RECORD: Final = re.compile(rb"turnlog-keys 1 ([1-9][0-9]{0,8})\n")


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The keys of a session as they are stored."""

    tree: KeyTree
    generation: int
    """The generation that they are wrapped under."""
    stored: bytes = field(repr=False)
    """The record as it is stored."""


def parse_record(session: str, stored: bytes) -> WrappedKeys:
    """Return the keys of a stored record; raises `Corrupt` for one that is none."""
    start = _RECORD.match(stored)
    if start is None:
        raise Corrupt(f"keys of session {session}", "they are no record of this release")
    return WrappedKeys(int(start[1]), stored[start.end() :])


async def store_record(
    connection: NatsConnection,
    keyring: SealKeyring,
    owner: tuple[str, str],
    keys: bytes,
    behind: int = 0,
) -> bytes | None:
    """Store the keys of a tenant's session behind a stream sequence, or as the first ones behind 0.

    Return the record as it is stored, or None if another one is the last.
    """
    subject = build_key_subject(*owner)
    while True:
        wrapped = await keyring.wrap_keys(owner[0], keys)
        stored = b"turnlog-keys 1 %d\n" % wrapped.generation + wrapped.wrapped
        sequence = await _store_behind_writers(connection, subject, stored, behind)
        if sequence is None:
            return None
        # Whoever retires the generation has read past these keys if a new one came meanwhile.
        if await keyring.find_generation() <= wrapped.generation:
            return stored
        behind = sequence


async def _store_behind_writers(
    connection: NatsConnection, subject: str, stored: bytes, behind: int
) -> int | None:
    """Store a message as `store_behind` does, and wait while another writer stores one."""
    failures = 0
    while True:
        try:
            return await store_behind(connection, subject, stored, behind)
        except JsApiError as denied:
            if denied.code != IN_FLIGHT_CODE:
                raise
            await wait_backoff(failures)
            failures += 1


@dataclass(frozen=True, slots=True)
class _NoKey:
    """Why the key of a box is not there."""

    fault: str = ""
    """Empty if it was erased."""


_KeyName = tuple[str, str, bytes]
"""Tenant, name of leaves, and purpose of a key that follows from these."""


ForgetSession = Callable[[str, str], None]
"""Drop what a process has in memory of a session, by tenant and id."""


@dataclass(slots=True)
class _StoredRecords:
    """How often records were stored, as far as this process heard and remembers."""

    count: int = 0
    by_owner: OrderedDict[tuple[str, str], int] = field(
        default_factory=OrderedDict[tuple[str, str], int]
    )

    def note_record(self, owner: tuple[str, str]) -> None:
        """Note that a record of a session was stored."""
        self.count += 1
        self.by_owner[owner] = self.by_owner.get(owner, 0) + 1
        while len(self.by_owner) > MAX_CACHED_RECORDS:
            self.by_owner.popitem(last=False)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SessionKeys:
    """The keys of all sealed sessions that a keyring has."""

    connection: NatsConnection
    keyring: SealKeyring
    written: WrittenEvents = field(default_factory=WrittenEvents)
    """Events that this process has sealed, on this connection or on one that shares them."""
    _records: OrderedDict[tuple[str, str], KeyRecord] = field(
        default_factory=OrderedDict[tuple[str, str], KeyRecord]
    )
    _box_keys: dict[_KeyName, bytes] = field(default_factory=dict["_KeyName", bytes])
    """Keys that follow from these records."""
    _listeners: list[ForgetSession] = field(default_factory=list["ForgetSession"])
    _stored: _StoredRecords = field(default_factory=_StoredRecords)
    _noted: set[str] = field(default_factory=set[str])
    """What of the keyring was logged."""

    async def create_record(self, tenant: str, session: str) -> int:
        """Store new keys for a session, unless it has some; return their generation."""
        tree = KeyTree.create(secrets.token_bytes(KEY_BYTES))
        stored = await store_record(self.connection, self.keyring, (tenant, session), tree.encode())
        if stored is not None:
            generation = parse_record(session, stored).generation
            return self._remember(tenant, session, KeyRecord(tree, generation, stored)).generation
        record = await self.find_record(tenant, session)
        if record is None:
            raise Corrupt(f"keys of session {session}", "they were stored and are gone")
        return record.generation

    async def remove_leaves(
        self, tenant: str, session: str, leaves: frozenset[int] | None, last_turn: int
    ) -> RemovedKeys:
        """See `SealingKeys.remove_leaves`."""
        subject = build_key_subject(tenant, session)
        while True:
            found = await get_last_message(self.connection, KEYS_STREAM, subject, leader=True)
            if found is None:
                raise Corrupt(f"keys of session {session}", "the record is missing")
            record = await self._decode_record(tenant, session, found.payload)
            left = EMPTY_TREE if leaves is None else record.tree.remove_leaves(leaves)
            stored: bytes | None = found.payload
            if left.nodes != record.tree.nodes:
                stored = await store_record(
                    connection=self.connection,
                    keyring=self.keyring,
                    owner=(tenant, session),
                    keys=left.encode(),
                    behind=found.stream_sequence,
                )
            if stored is None:
                continue  # Another record is the last one now.
            await _delete_earlier_records(self.connection, subject)
            self._forget_record(tenant, session)
            return RemovedKeys(
                generation=record.generation,
                before=compute_digest(found.payload),
                after=compute_digest(stored),
                left=compute_kept_digest(list_kept_keys(left, last_turn)),
            )

    async def list_kept_keys(self, tenant: str, session: str, last_turn: int) -> Sequence[KeptKey]:
        """See `SealingKeys.list_kept_keys`."""
        await self.compare_record(tenant, session)
        record = await self.find_record(tenant, session)
        if record is None:
            raise Corrupt(f"keys of session {session}", "the record is missing")
        return list_kept_keys(record.tree, last_turn)

    async def compare_record(self, tenant: str, session: str) -> None:
        """See `SealingKeys.compare_record`."""
        known, subject = self._records.get((tenant, session)), build_key_subject(tenant, session)
        found = await get_last_message(self.connection, KEYS_STREAM, subject, leader=True)
        if known is None:
            self.written.forget_session(tenant, session)
        elif found is None or found.payload != known.stored:
            self._forget_record(tenant, session)

    def _note_record(self, tenant: str, session: str) -> None:
        """Note that a record was stored of a session whose keys are not in memory."""
        self._stored.note_record((tenant, session))
        self.written.forget_session(tenant, session)

    def _forget_record(self, tenant: str, session: str) -> None:
        """Drop what this process has in memory of a session's keys, and what depends on them."""
        self._note_record(tenant, session)
        self._records.pop((tenant, session), None)
        self._box_keys.clear()
        for listener in self._listeners:
            listener(tenant, session)

    def add_listener(self, listener: ForgetSession) -> None:
        """See `SealingKeys.add_listener`."""
        self._listeners.append(listener)

    @asynccontextmanager
    async def watch_records(self) -> AsyncGenerator[None]:
        """Forget the keys of each session whose record is replaced while the body runs."""

        async def forget(message: Msg) -> None:
            _, tenant, session = message.subject.split(".")
            known = self._records.get((tenant, session))
            if known is None:
                self._note_record(tenant, session)
            elif known.stored != message.data:
                self._forget_record(tenant, session)

        with self.connection.watch_reconnects(self._forget_all):
            async with open_subscription(self.connection.nc, ALL_KEY_SUBJECTS, forget):
                yield

    def _forget_all(self) -> None:
        """Drop all keys in memory, after a time in which replaced records may have been missed."""
        for tenant, session in tuple(self._records):
            self._forget_record(tenant, session)
        self.written.forget_all()

    async def has_record(self, tenant: str, session: str) -> bool:
        """Return whether a session has keys."""
        return await self.find_record(tenant, session) is not None

    async def find_record(self, tenant: str, session: str) -> KeyRecord | None:
        """Return the keys of a session; None if it has none. Raises `Corrupt` for broken ones."""
        known = self._records.get((tenant, session))
        if known is not None:
            self._records.move_to_end((tenant, session))
            return known
        owner, subject = (tenant, session), build_key_subject(tenant, session)
        while True:
            heard = self._stored.by_owner.get(owner, 0)
            # A replica may still have the record before one that was heard of.
            found = await get_last_message(self.connection, KEYS_STREAM, subject, leader=heard > 0)
            if found is None:
                found = await get_last_message(self.connection, KEYS_STREAM, subject, leader=True)
            if found is None:
                return None
            record = await self._decode_record(tenant, session, found.payload)
            if self._stored.by_owner.get(owner, 0) == heard:
                return self._remember(tenant, session, record)

    def _remember(self, tenant: str, session: str, record: KeyRecord) -> KeyRecord:
        self._records[tenant, session] = record
        while len(self._records) > MAX_CACHED_RECORDS:
            self._records.popitem(last=False)
        return record

    async def _decode_record(self, tenant: str, session: str, stored: bytes) -> KeyRecord:
        wrapped = parse_record(session, stored)
        keys = await self.keyring.unwrap_keys(tenant, wrapped)
        return KeyRecord(KeyTree.decode(keys), wrapped.generation, stored)

    async def attach_key(self, stored: bytes) -> bytes:
        """Return stored bytes with the key of their box, if they are a sealed event."""
        if written := self.written.find_event(stored):
            return written
        header = parse_sealed_header(stored)
        return await self._attach_box_key(stored, header) if header else stored

    async def attach_keys(self, stored: Iterable[bytes]) -> list[bytes]:
        """Return all of these with their keys."""
        pairs = [self._find_header(each) for each in stored]
        await self._load_records([header for _, header in pairs if header])
        return [
            await self._attach_box_key(each, header) if header else each for each, header in pairs
        ]

    def _find_header(self, stored: bytes) -> tuple[bytes, SealedHeader | None]:
        """Return stored bytes with their header, if a key has to be attached to them."""
        if written := self.written.find_event(stored):
            return written, None
        return stored, parse_sealed_header(stored)

    async def _load_records(self, headers: Iterable[SealedHeader]) -> None:
        """Request the records of keys that are not known, several at a time."""
        unknown = (
            each
            for each in headers
            if (each.place.tenant, each.leaves, BOX_PURPOSE) not in self._box_keys
        )
        needed = {
            (each.place.tenant, s) for each in unknown for s in parse_leaf_runs(each.leaves) or ()
        }
        missing = iter(needed - self._records.keys())
        while page := list(islice(missing, MAX_KEY_REQUESTS)):
            # Whoever needs a record that cannot be read says so for its event.
            requests = (self.find_record(*each) for each in page)
            found = await asyncio.gather(*requests, return_exceptions=True)
            # What cannot be reached is not waited for once more for each event.
            if unreached := [each for each in found if isinstance(each, Unavailable)]:
                raise unreached[0]

    async def _attach_box_key(self, stored: bytes, header: SealedHeader) -> bytes:
        try:
            found = await self._find_box_key(header.place.tenant, header.leaves)
        except KeyringUnfit as error:
            self._note_unfit(error)
            return stored  # As without a keyring: nothing is lost, and another one opens it.
        if isinstance(found, _NoKey):
            return SealedPayload(stored, None, found.fault, header=header)
        return SealedPayload(stored, found, header=header)

    def _note_unfit(self, error: KeyringUnfit) -> None:
        if error.detail not in self._noted:
            self._noted.add(error.detail)
            _log.error("keyring-unfit: %s", error.detail)

    async def _find_box_key(
        self, tenant: str, name: str, purpose: bytes = BOX_PURPOSE
    ) -> bytes | _NoKey:
        if known := self._box_keys.get((tenant, name, purpose)):
            return known
        leaves, heard = parse_leaf_runs(name), self._stored.count
        if leaves is None:
            return _NoKey("it names no keys")
        keys: list[bytes] = []
        for session in sorted(leaves):
            try:
                record = await self.find_record(tenant, session)
            except KeyringUnfit:
                raise
            except Corrupt as error:
                return _NoKey(f"{error.where}: {error.detail}")
            if record is None:
                return _NoKey(f"the record with the keys of session {session} is missing")
            try:
                keys += record.tree.derive_covering_keys(leaves[session])
            except LeafErased:
                return _NoKey()
        key = derive_box_key(keys, purpose)
        if self._stored.count == heard:  # Otherwise one of these records may be replaced by now.
            if len(self._box_keys) >= MAX_CACHED_KEYS:
                self._box_keys.clear()
            self._box_keys[tenant, name, purpose] = key
        return key

    async def find_event_seal(self, tenant: str, leaves: LeafSets) -> EventSeal:
        """Return what seals an event under these leaves; raises `Corrupt` without their keys."""
        name = format_leaves(leaves)
        key = await self._require_box_key(tenant, name)
        pseudonyms = await self.find_pseudonym_key(tenant)
        return EventSeal(key=key, leaves=name, pseudonyms=pseudonyms, written=self.written)

    async def find_pseudonym_key(self, tenant: str) -> PseudonymKey:
        """See `SealingKeys.find_pseudonym_key`."""
        if not await self.has_record(tenant, NAMES_ID):
            await self.create_record(tenant, NAMES_ID)
        return PseudonymKey(await self._require_box_key(tenant, _NAMES_LEAVES, b"names"))

    async def _require_box_key(self, tenant: str, name: str, purpose: bytes = BOX_PURPOSE) -> bytes:
        key = await self._find_box_key(tenant, name, purpose)
        if isinstance(key, _NoKey):
            raise Corrupt(f"keys {name}", key.fault) if key.fault else KeysErased(name)
        return key

    async def compute_digest(self, tenant: str, leaves: LeafSets, data: bytes) -> Digest:
        """Return the keyed digest of a text, from which nobody guesses it without the keys."""
        key = await self._require_box_key(tenant, format_leaves(leaves), b"digest")
        return f"{KEYED_DIGEST}{hmac.digest(key, data, 'sha256').hex()}"

    async def find_digest_key(self, tenant: str, digest: Digest) -> bytes:
        """Return the key of the digest of a sealed blob or item; raises `Corrupt` without it."""
        media = build_media_subject(tenant, name_sealed_item(digest))
        text = build_sealed_text_subject(tenant, digest)
        for subject in (build_blob_subject(tenant, digest), media, text):
            found = await get_last_message(self.connection, BLOBS_STREAM, subject, leader=True)
            if found and (leaves := _find_leaves(digest, found.payload)):
                return await self._require_box_key(tenant, leaves, b"digest")
        raise Corrupt(f"blob {digest}", "it is gone")

    async def derive_digest_key(self, tenant: str, leaves: str) -> bytes:
        """Return the key of digests under the leaves of a name; raises `Corrupt` without it."""
        return await self._require_box_key(tenant, leaves, b"digest")

    async def find_media_seal(self, tenant: str, leaves: str, digest: Digest) -> MediaSeal:
        """Return what seals the item of a keyed digest under the leaves of a name.

        Raises `Corrupt` if their keys are lost, and `KeysErased` if they were removed.
        """
        key = await self._require_box_key(tenant, leaves, b"media")
        return derive_media_seal(leaves, key, digest)

    async def seal_upload(self, tenant: str, digest: Digest) -> tuple[str, MediaSeal]:
        """Return the name that an upload is stored under, and what seals it."""
        if not await self.has_record(tenant, UPLOADS_ID):
            await self.create_record(tenant, UPLOADS_ID)
        name = format_leaves(UPLOADS_LEAVES)
        key = await self._require_box_key(tenant, name, b"upload")
        seal = derive_media_seal(name, key, digest)
        return name_upload(seal, digest), seal

    async def find_upload(self, tenant: str, digest: Digest) -> tuple[str, MediaSeal] | None:
        """Return the same for an upload that may be stored; None where none was ever sealed."""
        if not await self.has_record(tenant, UPLOADS_ID):
            return None
        return await self.seal_upload(tenant, digest)

    async def seal_session_text(self, tenant: str, session: str, name: str, data: bytes) -> bytes:
        """See `SealingKeys.seal_session_text`."""
        record = await self.find_record(tenant, session)
        runs = record.tree.list_runs() if record else []
        if not runs:
            raise Corrupt(f"keys of session {session}", "all of them were erased")
        return await self._seal_named_text(tenant, format_leaf_runs(session, runs), name, data)

    async def seal_text(self, tenant: str, leaves: LeafSets, name: str, data: bytes) -> bytes:
        """Return a text as it is stored under a name."""
        return await self._seal_named_text(tenant, format_leaves(leaves), name, data)

    async def _seal_named_text(self, tenant: str, sealed_of: str, name: str, data: bytes) -> bytes:
        key = await self._require_box_key(tenant, sealed_of)
        start = b"turnlog-sealed 1 %b\n" % sealed_of.encode()
        return start + seal_box(key, build_text_place(tenant, name), data)

    async def open_text(self, tenant: str, name: str, stored: bytes) -> bytes | None:
        """Return a text that was sealed under a name, or None if it was altered.

        Raises `Corrupt` if its keys are lost or erased.
        """
        start = SEALED_TEXT.match(stored)
        if start is None:
            return None
        key = await self._require_box_key(tenant, start[1].decode())
        try:
            return open_box(key, build_text_place(tenant, name), stored[start.end() :])
        except BoxAltered:
            return None


MISSING_CODES: Final = frozenset({10043, 10057})
"""Codes of the server for a message that is not there, or goes while it looks for it."""


class _RecordOverwritten(BaseModel):
    success: bool


async def delete_replaced_record(connection: NatsConnection, sequence: int) -> None:
    """Have the server overwrite a record that a later one has replaced, unless it is gone."""
    subject, request = f"$JS.API.STREAM.MSG.DELETE.{KEYS_STREAM}", to_json({"seq": sequence})
    try:
        await request_json(connection, subject, _RecordOverwritten, request)
    except JsApiError as denied:
        if denied.code not in MISSING_CODES:
            raise  # Otherwise another process was faster.


async def _delete_earlier_records(connection: NatsConnection, subject: str) -> None:
    """Do so with all records of a session but the last one."""
    last = await get_last_message(connection, KEYS_STREAM, subject, leader=True)
    while last:
        first = await get_next_message(connection, KEYS_STREAM, subject, 1, leader=True)
        if first is None or first.stream_sequence >= last.stream_sequence:
            return
        await delete_replaced_record(connection, first.stream_sequence)


def _find_leaves(digest: Digest, stored: bytes) -> str | None:
    """Return the name of the leaves of a sealed blob, or of the chunks in a list; else None."""
    if start := SEALED_TEXT.match(stored):
        return start[1].decode()
    return parse_chunk_list(digest, stored).sealed_of if is_chunk_list(stored) else None
