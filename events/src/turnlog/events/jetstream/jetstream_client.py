"""The JetStream client: implementations of all ports of the event store on one connection.

The library log differs from the session log only in its kind of history.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    aclosing,
    asynccontextmanager,
    closing,
    nullcontext,
)
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel

from turnlog.events.archive.message_archive import open_archive
from turnlog.events.async_tasks import stream_watch
from turnlog.events.codec import EventBatch, decode_event
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt, UnreadableEnd
from turnlog.events.jetstream import batch_append, session_reads, stream_reader
from turnlog.events.jetstream.blob_store import JetStreamBlobStore, JetStreamMediaStore
from turnlog.events.jetstream.direct_get import (
    get_last_message,
    get_message,
)
from turnlog.events.jetstream.history_end import HistoryReader
from turnlog.events.jetstream.js_api import (
    PublishAck,
    fetch_stream_info,
    list_subjects,
    request_json,
)
from turnlog.events.jetstream.live_feed import (
    JetStreamSessionWatch,
    LiveFeed,
    open_session_watch,
)
from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    RequestUnanswered,
    build_service_inbox,
    open_connection,
)
from turnlog.events.jetstream.stream_setup import (
    StreamOptions,
    check_message_size,
    provision_lost_streams,
    provision_streams,
)
from turnlog.events.jetstream.token_stream import JetStreamTokenStream, build_token_feed
from turnlog.events.seals.written_events import WrittenEvents
from turnlog.events.store.ports import (
    AppendOutcome,
    BatchAlreadyStored,
    BatchAppended,
    LogIdentity,
    RawEvent,
)
from turnlog.events.subjects import (
    ALERT_HISTORY,
    LIBRARY_HISTORY,
    READ_HISTORY,
    SESSION_HISTORY,
    SNAPSHOTS_STREAM,
    HistoryKind,
    build_snapshot_subject,
    build_token_filter,
)

if TYPE_CHECKING:
    from turnlog.events.seals.keyrings import SealKeyring


_HISTORY_SUBJECT_WORDS: Final = 3

MAX_KNOWN_ENDS: Final = 20_000
"""Histories whose ends are noted."""

_log = logging.getLogger(__name__)


class _StreamPurged(BaseModel):
    purged: int


@dataclass(frozen=True, slots=True)
class JetStreamSnapshotStore:
    """Snapshots of all sessions; the stream keeps only the latest message of each subject.

    To store a message, nats-server removes the one before it under that subject. If it cannot read
    that one (2.15.1, seen), it never answers, or it acknowledges the new message and removes it
    instead, or it loops for ever and with it everything that asks about the stream. So what is to
    be replaced is read first. If it is damaged, all snapshots are dropped: they only save time, and
    no smaller removal mends the server's counts.
    """

    connection: NatsConnection

    async def put_snapshot(
        self, tenant: str, session: str, data: bytes, interval: int | None = None
    ) -> None:
        """See `SnapshotStore.put_snapshot`."""
        check_message_size(self.connection, "snapshot", len(data))
        subject = build_snapshot_subject(tenant, session, interval)
        if await self._is_damaged(subject):
            await self._drop_all(subject)
        try:
            await request_json(self.connection, subject, PublishAck, data)
        except RequestUnanswered:
            # An earlier release may have left a damaged message before one that can be read.
            if not await self._is_damaged(subject, at_rest=True):
                raise
            await self._drop_all(subject)
            await request_json(self.connection, subject, PublishAck, data)

    async def _is_damaged(self, subject: str, *, at_rest: bool = False) -> bool:
        """Return whether the server counts a snapshot that it cannot read.

        Unless the stream is `at_rest`, two may be counted for a moment while one replaces another.
        """
        info = await fetch_stream_info(self.connection, SNAPSHOTS_STREAM, subject)
        if info.message_count < info.distinct_subjects:
            return True
        if info.subject_count == 0:
            return False
        latest = await get_last_message(self.connection, SNAPSHOTS_STREAM, subject, leader=True)
        return latest is None or (at_rest and info.subject_count > 1)

    async def _drop_all(self, subject: str) -> None:
        _log.warning("snapshots-dropped: %s or another one is damaged", subject)
        await request_json(
            self.connection, f"$JS.API.STREAM.PURGE.{SNAPSHOTS_STREAM}", _StreamPurged
        )

    async def get_snapshot(
        self, tenant: str, session: str, interval: int | None = None
    ) -> bytes | None:
        """See `SnapshotStore.get_snapshot`."""
        subject = build_snapshot_subject(tenant, session, interval)
        found = await get_last_message(self.connection, SNAPSHOTS_STREAM, subject)
        return found.payload if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JetStreamLog:
    """The log of all tenants' histories of one kind: sessions, or libraries."""

    connection: NatsConnection
    patience: float = 10.0
    """Seconds for which an append may be retried."""
    kind: HistoryKind = SESSION_HISTORY
    append_guard: batch_append.AppendGuard | None = None
    feed: LiveFeed[RecordedEvent] = field(
        default_factory=lambda: build_event_feed(SESSION_HISTORY.build_filter())
    )
    """The standing subscription of this process."""
    _known_ends: dict[str, int] = field(default_factory=dict[str, int])
    """Stream sequence of the last event under the subjects of histories, as of the last read."""

    async def get_identity(self, tenant: str) -> LogIdentity:
        """See `EventLog.get_identity`; it asks the server each time."""
        stream = self.kind.find_stream(tenant)
        return LogIdentity(stream, (await fetch_stream_info(self.connection, stream)).created)

    async def get_last_stream_sequence(self, tenant: str) -> int:
        """See `EventLog.get_last_stream_sequence`."""
        return (
            await fetch_stream_info(self.connection, self.kind.find_stream(tenant))
        ).last_sequence

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        """See `EventLog.append_batch`."""
        stream = self.kind.find_stream(batch.tenant)
        own = {message.payload: message.record_at for message in batch.messages}
        with self.feed.expect_messages(own):
            outcome = await batch_append.append_batch(
                connection=self.connection,
                stream=stream,
                batch=batch,
                patience=self.patience,
                guard=self.append_guard,
            )
        if isinstance(outcome, BatchAppended | BatchAlreadyStored):
            self._note_end(batch.subjects, outcome.events[-1].stream_sequence)
            key = batch.subjects.removesuffix(".>")
            for event in outcome.events:
                self.feed.add_decoded(key, event.stream_sequence, event.stored, event)
        return outcome

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        """See `EventLog.read_last_event`."""
        subjects = self.kind.build_filter(tenant, session)
        last = await session_reads.read_last_event(
            self.connection,
            self.kind.find_stream(tenant),
            subjects,
            leader=leader,
            known=self._known_ends.get(subjects, 0),
        )
        if last is not None:
            self._note_end(subjects, last.stream_sequence)
        return last

    def _note_end(self, subjects: str, stream_sequence: int) -> None:
        """Note an event that continues its history, so that reads do not check it again."""
        if len(self._known_ends) >= MAX_KNOWN_ENDS:
            self._known_ends.clear()
        self._known_ends[subjects] = stream_sequence

    async def find_unreadable_end(self, tenant: str, session: str) -> UnreadableEnd | None:
        """See `EventLog.find_unreadable_end`."""
        subjects = self.kind.build_filter(tenant, session)
        end = await HistoryReader(
            connection=self.connection,
            stream=self.kind.find_stream(tenant),
            subjects=subjects,
            leader=False,
        ).read_end(self._known_ends.get(subjects, 0))
        return end.unreadable if end else None

    async def has_stray_messages(self, tenant: str, session: str) -> bool:
        """See `EventLog.has_stray_messages`."""
        subjects = self.kind.build_filter(tenant, session)
        last = await self.read_last_event(tenant, session, leader=True)
        info = await fetch_stream_info(self.connection, self.kind.find_stream(tenant), subjects)
        return info.subject_count > (last.sequence if last else 0)

    async def list_tenants(self, session: str) -> Sequence[str]:
        """See `EventLog.list_tenants`."""
        subjects = self.kind.build_shared_filter(session)
        found = list_subjects(self.connection, self.kind.stream, subjects)
        return sorted({subject.split(".")[1] async for subject in found})

    async def find_last_position(self, tenant: str, leaf: str) -> int:
        """See `EventLog.find_last_position`."""
        stream, subjects = (
            self.kind.find_stream(tenant),
            self.kind.build_leaf_filter(tenant, leaf),
        )
        found = await get_last_message(self.connection, stream, subjects, leader=True)
        return found.stream_sequence if found else 0

    async def read_range(
        self, tenant: str, session: str, after: ChainHead | None, upto: RecordedEvent
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_range`."""
        subjects = self.kind.build_filter(tenant, session)
        return await session_reads.read_range(
            connection=self.connection,
            stream=self.kind.find_stream(tenant),
            subjects=subjects,
            after=after,
            upto=upto,
        )

    async def read_next_events(
        self, tenant: str, session: str, after: ChainHead | None, count: int
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_next_events`."""
        subjects = self.kind.build_filter(tenant, session)
        return await session_reads.read_next_events(
            connection=self.connection,
            stream=self.kind.find_stream(tenant),
            subjects=subjects,
            after=after,
            count=count,
        )

    async def find_event(
        self, tenant: str, session: str, sequence: int, upto: RecordedEvent
    ) -> RecordedEvent:
        """See `EventLog.find_event`."""
        subjects = self.kind.build_filter(tenant, session)
        return await session_reads.find_event(
            connection=self.connection,
            stream=self.kind.find_stream(tenant),
            subjects=subjects,
            sequence=sequence,
            upto=upto,
        )

    async def read_events_by_leaf(
        self, tenant: str, session: str, leaf: str, upto: ChainHead
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_events_by_leaf`."""
        stream, subject = (
            self.kind.find_stream(tenant),
            self.kind.build_subject(tenant, session, leaf),
        )
        events, is_complete = await session_reads.read_events_by_subject(
            self.connection, stream, subject, upto
        )
        if not is_complete:
            # Whether one of this session is missing shows in the chain of all its events.
            (last,) = await self.read_events_at(tenant, [upto.stream_sequence])
            await self.read_range(tenant, session, None, last)
        return events

    async def read_raw_events_by_leaf(
        self, tenant: str, leaf: str, after: int = 0
    ) -> Sequence[RawEvent]:
        """See `EventLog.read_raw_events_by_leaf`."""
        stream, subjects = (
            self.kind.find_stream(tenant),
            self.kind.build_leaf_filter(tenant, leaf),
        )
        counted = 0
        if after == 0:
            counted = (await fetch_stream_info(self.connection, stream, subjects)).subject_count
        raws = await session_reads.read_raw_events_by_subject(
            self.connection, stream, subjects, after
        )
        if len(raws) < counted:
            detail = f"{counted - len(raws)} of {counted} messages under {subjects} are missing"
            raise Corrupt(f"stream {stream}", f"{detail}: restore the stream from a backup")
        return raws

    async def read_raw_event(self, stream_sequence: int) -> RawEvent | None:
        """See `EventLog.read_raw_event`."""
        found = await get_message(self.connection, self.kind.stream, stream_sequence, leader=True)
        return RawEvent(found.subject, found.stream_sequence, found.payload) if found else None

    async def read_events_at(
        self, tenant: str, stream_sequences: Sequence[int]
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_events_at`."""
        return await session_reads.read_events_at(
            self.connection, self.kind.find_stream(tenant), tenant, stream_sequences
        )

    async def stream_raw_events(
        self, tenant: str | None, after: int, *, live: bool
    ) -> AsyncGenerator[Sequence[RawEvent]]:
        """See `EventLog.stream_raw_events`; the whole stream is read, to see what is missing."""
        stream = self.kind.stream if tenant is None else self.kind.find_stream(tenant)
        everything = self.kind.build_filter()
        prefix = self.kind.build_filter(tenant).removesuffix(">")
        async with aclosing(
            stream_reader.stream_raw_events(self.connection, stream, everything, after, live=live)
        ) as bulks:
            async for bulk in bulks:
                ours = bulk if tenant is None else [r for r in bulk if r.subject.startswith(prefix)]
                if ours:
                    yield ours

    async def attach_keys(self, raws: Sequence[RawEvent]) -> Sequence[RawEvent]:
        """See `EventLog.attach_keys`."""
        return await stream_reader.attach_keys(self.connection, raws)

    async def decode_event(self, stored: bytes, stream_sequence: int) -> RecordedEvent:
        """See `EventLog.decode_event`."""
        if self.connection.keys:
            stored = await self.connection.keys.attach_key(stored)
        return self.feed.decode_stored(stored, stream_sequence)

    def open_session_watch(
        self, tenant: str, session: str, after: int, wake: asyncio.Event
    ) -> AbstractAsyncContextManager[JetStreamSessionWatch]:
        """See `EventLog.open_session_watch`."""
        subjects = self.kind.build_filter(tenant, session)
        return open_session_watch(
            connection=self.connection,
            stream=self.kind.find_stream(tenant),
            feed=self.feed,
            subjects=subjects,
            after=after,
            wake=wake,
        )

    async def watch_session(
        self, tenant: str, session: str, after: int = 0
    ) -> AsyncGenerator[RecordedEvent]:
        """See `EventLog.watch_session`."""
        wake = asyncio.Event()
        async with (
            self.open_session_watch(tenant, session, after, wake) as watch,
            aclosing(stream_watch(wake, watch)) as events,
        ):
            async for event in events:
                yield event


def build_event_feed(subjects: str) -> LiveFeed[RecordedEvent]:
    """Return a feed of events, whose watchers watch one history each."""
    return LiveFeed(subjects=subjects, key_words=_HISTORY_SUBJECT_WORDS, decode=decode_event)


@dataclass(frozen=True, slots=True, kw_only=True)
class JetStreamClient:
    """The logs and stores of a process, on one connection."""

    connection: NatsConnection
    log: JetStreamLog
    library: JetStreamLog
    alerts: JetStreamLog
    reads: JetStreamLog
    blobs: JetStreamBlobStore
    media: JetStreamMediaStore
    snapshots: JetStreamSnapshotStore
    tokens: JetStreamTokenStream


def build_client(
    connection: NatsConnection, tenant: str | None = None, session: str | None = None
) -> JetStreamClient:
    """Return a client on a connection; nothing is created or checked.

    What it watches is of this tenant, or of this session of it, or of any.
    """
    events = build_event_feed(SESSION_HISTORY.build_filter(tenant, session))
    library = build_event_feed(LIBRARY_HISTORY.build_filter(tenant))
    alerts = build_event_feed(ALERT_HISTORY.build_filter(tenant))
    reads = build_event_feed(READ_HISTORY.build_filter(tenant))
    if connection.keys:
        connection.keys.add_listener(partial(_forget_kept_events, events))
    return JetStreamClient(
        connection=connection,
        log=JetStreamLog(connection=connection, feed=events),
        library=JetStreamLog(connection=connection, kind=LIBRARY_HISTORY, feed=library),
        alerts=JetStreamLog(connection=connection, kind=ALERT_HISTORY, feed=alerts),
        reads=JetStreamLog(connection=connection, kind=READ_HISTORY, feed=reads),
        blobs=JetStreamBlobStore(connection),
        media=JetStreamMediaStore(JetStreamBlobStore(connection)),
        snapshots=JetStreamSnapshotStore(connection),
        tokens=JetStreamTokenStream(
            connection, build_token_feed(build_token_filter(tenant, session))
        ),
    )


def _forget_kept_events(feed: LiveFeed[RecordedEvent], tenant: str, session: str) -> None:
    feed.forget_messages(SESSION_HISTORY.build_filter(tenant, session).removesuffix(".>"))


@asynccontextmanager
async def open_client(
    url: str,
    terms: StreamOptions,
    *,
    name: str = "turnlog",
    tenant: str | None = None,
    on_closed: Callable[[], None] | None = None,
    keyring: SealKeyring | None = None,
    archive: Path | None = None,
    written: WrittenEvents | None = None,
) -> AsyncGenerator[JetStreamClient]:
    """Connect, create and verify the streams; create lost ones again after each reconnect.

    What the client watches is of this tenant, or of any. With a keyring it opens what is sealed,
    with the folder of an archive it reads what was moved there. What is sealed in this process is
    shared by the clients that have the same `written`.
    """
    again = partial(provision_lost_streams, terms=terms)
    async with (
        open_connection(
            url,
            name=name,
            inbox_prefix=build_service_inbox(url),
            on_reconnect=again,
            on_closed=on_closed,
        ) as connected,
        add_archive(connected, archive) as connection,
    ):
        await provision_streams(connection, terms)
        async with open_keys(connection, keyring, written) as opened:
            yield build_client(opened, tenant)


@asynccontextmanager
async def add_archive(
    connection: NatsConnection, folder: Path | None
) -> AsyncGenerator[NatsConnection]:
    """Yield a connection that also reads what was moved into an archive; None is none.

    Raises `Corrupt` while sessions are being moved.
    """
    archive = open_archive(folder)
    if archive is None:
        yield connection
        return
    with closing(archive):
        yield replace(connection, archive=archive)


@asynccontextmanager
async def open_keys(
    connection: NatsConnection, keyring: SealKeyring | None, written: WrittenEvents | None = None
) -> AsyncGenerator[NatsConnection]:
    """Yield a connection that opens what is sealed, if there is a keyring.

    Keys in memory are forgotten once an erasure has removed them.
    """
    opened = add_keys(connection, keyring, written)
    async with opened.keys.watch_records() if opened.keys else nullcontext():
        yield opened


def add_keys(
    connection: NatsConnection, keyring: SealKeyring | None, written: WrittenEvents | None = None
) -> NatsConnection:
    """Return a connection that opens what is sealed, if there is a keyring."""
    if keyring is None:
        return connection
    # Only who has a keyring needs the library that opens.
    from turnlog.events.jetstream.session_keys import SessionKeys  # noqa: PLC0415

    keys = SessionKeys(connection=connection, keyring=keyring, written=written or WrittenEvents())
    return replace(connection, keys=keys)
