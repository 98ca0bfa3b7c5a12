"""The standing subscription of a process to what a stream republishes, and its watchers.

A process subscribes once to the events of sessions and once to token events, when it first watches
one, and the subscription lasts as long as the connection. A watcher costs the server nothing: it
gets a queue under the subject that it watches. The latest messages are kept for watchers that begin
a moment after a message came, and events that this process appended are among them as objects, so
an event is decoded once in a process, and never by its writer.

Core NATS has no delivery guarantee: a message can be lost, and a queue that nobody reads is dropped
when it is full. A feed says where it knows of a loss. Its watchers find the other losses by
sequence, check from time to time for a lost last message, and read what is missing from the log.
So a watch of a session yields stored events, then live ones, without gap or repeat; one that begins
at an event which the feed still has reads nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from nats import errors

from turnlog.events.chain_link import is_next_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import (
    Corrupt,
    KeyringMissing,
    StreamHole,
    Unavailable,
    UnreadableEnd,
)
from turnlog.events.jetstream.history_end import HistoryReader
from turnlog.events.jetstream.nats_connection import NatsConnection, draw_backoff
from turnlog.events.jetstream.session_reads import (
    SHORT_RANGE,
    find_event,
    read_range,
    walk_back,
)
from turnlog.events.jetstream.subscriptions import RawFrame, add_raw_subscription
from turnlog.events.stray_messages import is_stray, parse_history_key
from turnlog.events.subjects import REPUBLISH_PREFIX

QUEUE_BYTES: Final = 4 * 1024 * 1024
"""Bytes queued for a watcher that does not read."""

RECENT_BYTES: Final = 2 * 1024 * 1024
"""Bytes of the latest messages that a feed keeps."""

MESSAGE_OVERHEAD_BYTES: Final = 1024
"""Bytes counted per message in addition to its payload."""

CHECK_SECONDS: Final = 3.0
"""Seconds without a message after which a watcher reads whether one was lost."""

ItemT = TypeVar("ItemT")


@dataclass(slots=True, eq=False, kw_only=True)
class LiveMessage(Generic[ItemT]):
    """A message as the stream stored it, with its decoded form once it was decoded."""

    key: str
    stream_sequence: int
    previous: int
    """Stream sequence of the previous message of the same subject; 0 if there is none."""
    stored: bytes
    item: ItemT | None = None

    @property
    def size(self) -> int:
        """What the message counts against a limit."""
        return len(self.stored) + MESSAGE_OVERHEAD_BYTES


@dataclass(eq=False)
class LiveQueue(Generic[ItemT]):
    """The messages that a watcher has not taken yet."""

    wake: asyncio.Event
    """Set when there is something to take."""
    has_missed: bool = True
    """Whether messages may be missing before the first one; the watcher reads them and resets it.
    """
    messages: deque[LiveMessage[ItemT]] = field(default_factory=deque["LiveMessage[ItemT]"])
    free_bytes: int = QUEUE_BYTES

    def add_message(self, message: LiveMessage[ItemT]) -> None:
        """Queue a message; a full queue is dropped."""
        if message.size > self.free_bytes:
            self.mark_possible_loss()
            return
        self.free_bytes -= message.size
        self.messages.append(message)
        self.wake.set()

    def mark_possible_loss(self) -> None:
        """Drop what is queued: the watcher reads it with what may have been lost."""
        self.messages.clear()
        self.free_bytes = QUEUE_BYTES
        self.has_missed = True
        self.wake.set()

    def take_message(self) -> LiveMessage[ItemT] | None:
        """Return the next message, or None if the queue is empty."""
        if not self.messages:
            return None
        message = self.messages.popleft()
        self.free_bytes += message.size
        return message


@dataclass(eq=False, kw_only=True)
class LiveFeed(Generic[ItemT]):
    """The messages under `subjects` as they are republished."""

    subjects: str
    key_words: int
    """How many words of a subject select its watchers."""
    decode: Callable[[bytes, int], ItemT]
    """Decodes the stored bytes at a stream sequence; may raise `Corrupt`."""
    wide_key_words: int | None = None
    """How many words select the watchers of more, who miss what came before; None for none."""
    is_open: bool = False
    _expected: dict[bytes, Callable[[int], ItemT]] = field(
        default_factory=dict[bytes, Callable[[int], ItemT]]
    )
    """Messages that this process is about to store: bytes to a decoder for a stream sequence."""
    _queues: dict[str, list[LiveQueue[ItemT]]] = field(
        default_factory=dict[str, "list[LiveQueue[ItemT]]"]
    )
    _recent: OrderedDict[int, LiveMessage[ItemT]] = field(
        default_factory=OrderedDict[int, "LiveMessage[ItemT]"]
    )
    """By stream sequence, in the order in which they came."""
    _recent_by_key: dict[str, deque[LiveMessage[ItemT]]] = field(
        default_factory=dict[str, "deque[LiveMessage[ItemT]]"]
    )
    _free_bytes: int = RECENT_BYTES

    async def open_on(self, connection: NatsConnection) -> bool:
        """Subscribe if that was not done yet; return whether it was. Raises `Unavailable`."""
        if self.is_open:
            return True
        self.is_open = True
        connection.reconnect_listeners.add(self._mark_possible_loss)
        try:
            subject = f"{REPUBLISH_PREFIX}.{self.subjects}"
            await add_raw_subscription(connection.nc, subject, self.add_frame)
        except errors.Error as error:
            self.is_open = False
            raise Unavailable("nats", f"no subscription: {type(error).__name__}") from error
        return False

    def list_kept(self, key: str) -> Sequence[LiveMessage[ItemT]]:
        """Return the kept messages under a key, in the order of the stream."""
        return self._recent_by_key.get(key, ())

    def forget_messages(self, key: str) -> None:
        """Drop the kept messages under a key; its watchers read the log."""
        for message in tuple(self.list_kept(key)):
            del self._recent[message.stream_sequence]
            self._forget_message(message)
        for queue in self._queues.get(key, ()):
            queue.mark_possible_loss()

    @contextmanager
    def open_queue(
        self,
        key: str,
        wake: asyncio.Event,
        first: Iterable[LiveMessage[ItemT]] | None = None,
    ) -> Generator[LiveQueue[ItemT]]:
        """Queue the messages under a key while the body runs.

        Before them the `first` ones, or else all that the feed keeps.
        """
        queue: LiveQueue[ItemT] = LiveQueue(wake)
        for message in self.list_kept(key) if first is None else first:
            queue.add_message(message)
        queues = self._queues.setdefault(key, [])
        queues.append(queue)
        try:
            yield queue
        finally:
            queues.remove(queue)
            if not queues:
                del self._queues[key]

    def decode_message(self, message: LiveMessage[ItemT]) -> ItemT:
        """Return the decoded form of a message; it is decoded once."""
        if message.item is None:
            message.item = self.decode(message.stored, message.stream_sequence)
        return message.item

    def decode_stored(self, stored: bytes, stream_sequence: int) -> ItemT:
        """Return the decoded form of stored bytes; they are decoded once if the feed has them."""
        message = self._recent.get(stream_sequence)
        if message is None or message.stored != stored:
            return self.decode(stored, stream_sequence)
        return self.decode_message(message)

    @contextmanager
    def expect_messages(self, messages: Mapping[bytes, Callable[[int], ItemT]]) -> Generator[None]:
        """Do not decode these bytes while the body stores them.

        They may arrive here before their acknowledgement does.
        """
        self._expected.update(messages)
        try:
            yield
        finally:
            for stored in messages:
                self._expected.pop(stored, None)

    def add_frame(self, frame: RawFrame) -> None:
        """Pass a message of the subscription to its watchers."""
        sequence = _find_number(frame.headers, b"\r\nNats-Sequence: ")
        if sequence is None:
            return  # It does not come from the stream.
        known = self._recent.get(sequence)
        if known is None or known.stored != frame.payload:
            words = frame.subject.decode().split(".", self.key_words + 1)
            previous = _find_number(frame.headers, b"\r\nNats-Last-Sequence: ") or 0
            key = ".".join(words[1 : self.key_words + 1])
            make = self._expected.get(frame.payload)
            item = make(sequence) if make else None
            self._add_message(
                LiveMessage(
                    key=key,
                    stream_sequence=sequence,
                    previous=previous,
                    stored=frame.payload,
                    item=item,
                )
            )

    def add_decoded(self, key: str, stream_sequence: int, stored: bytes, item: ItemT) -> None:
        """Pass a message that this process stored to its watchers, with its decoded form."""
        if not self.is_open:
            return
        known = self._recent.get(stream_sequence)
        if known is None or known.stored != stored:
            self._add_message(
                LiveMessage(
                    key=key, stream_sequence=stream_sequence, previous=0, stored=stored, item=item
                )
            )
        else:
            known.item = known.item or item

    def _add_message(self, message: LiveMessage[ItemT]) -> None:
        if replaced := self._recent.pop(message.stream_sequence, None):
            self._forget_message(replaced)
        self._recent[message.stream_sequence] = message
        of_key = self._recent_by_key.setdefault(message.key, deque())
        # What another process stored may come after what this one stored behind it.
        place = len(of_key)
        while place and of_key[place - 1].stream_sequence > message.stream_sequence:
            place -= 1
        of_key.insert(place, message)
        self._free_bytes -= message.size
        while self._free_bytes < 0:
            self._forget_message(self._recent.popitem(last=False)[1])
        for key in self._list_watched_keys(message.key):
            for queue in self._queues.get(key, ()):
                queue.add_message(message)

    def _list_watched_keys(self, key: str) -> Sequence[str]:
        if self.wide_key_words is None:
            return (key,)
        return (key, ".".join(key.split(".", self.wide_key_words)[: self.wide_key_words]))

    def _forget_message(self, message: LiveMessage[ItemT]) -> None:
        of_key = self._recent_by_key[message.key]
        of_key.remove(message)
        if not of_key:
            del self._recent_by_key[message.key]
        self._free_bytes += message.size

    def _mark_possible_loss(self) -> None:
        self._recent.clear()
        self._recent_by_key.clear()
        self._free_bytes = RECENT_BYTES
        for queues in self._queues.values():
            for queue in queues:
                queue.mark_possible_loss()


def _find_number(headers: bytes, name: bytes) -> int | None:
    start = headers.find(name) + len(name)
    digits = headers[start : headers.find(b"\r", start)] if start >= len(name) else b""
    return int(digits) if digits.isdigit() else None


@dataclass(kw_only=True)
class JetStreamSessionWatch:
    """The events of a session that its reader has not taken yet."""

    connection: NatsConnection
    stream: str
    subjects: str
    feed: LiveFeed[RecordedEvent]
    queue: LiveQueue[RecordedEvent]
    seen: RecordedEvent | int
    """The last event taken, or the sequence that the watch began after."""
    fresh: deque[RecordedEvent] = field(default_factory=deque[RecordedEvent])
    """Events that were read from the log and are not taken yet."""
    unreadable: UnreadableEnd | None = None
    """Why the history ends after what is fresh, as of the last read."""
    checked_at: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    failures: int = 0

    async def take_next(self) -> RecordedEvent | None:
        """See `Watch.take_next`; waits only where it reads the log, or the keys of an event.

        Raises `UnreadableEnd` once everything before that message was taken.
        """
        event = await self._take_live_event()
        if event is None and self._is_read_due():
            await self._read_log(None)
            event = self.fresh.popleft() if self.fresh else None
        elif event is not None and not self._does_follow(event):
            await self._read_up_to(event)
            event = self.fresh.popleft() if self.fresh else None
        if event is None and self.unreadable is not None:
            raise self.unreadable
        if event is not None:
            self.seen = event
            self.checked_at = asyncio.get_running_loop().time()
        return event

    async def _take_live_event(self) -> RecordedEvent | None:
        """Return the next event that is there, which may come after a gap."""
        if self.fresh:
            return self.fresh.popleft()
        while not self.queue.has_missed and (message := self.queue.take_message()):
            try:
                await attach_key(self.connection, message)
                event = self.feed.decode_message(message)
            except (Corrupt, Unavailable):
                if is_stray(message.key, message.stored):
                    continue
                self.queue.mark_possible_loss()
                return None
            if (event.tenant, event.session) != parse_history_key(message.key):
                continue
            if event.sequence > self._seen_sequence:
                return event
        return None

    @property
    def _seen_sequence(self) -> int:
        return self.seen if isinstance(self.seen, int) else self.seen.sequence

    def _does_follow(self, event: RecordedEvent) -> bool:
        if isinstance(self.seen, int):
            return event.sequence == self.seen + 1
        return is_next_event(event, self.seen.head)

    def _is_read_due(self) -> bool:
        since = asyncio.get_running_loop().time() - self.checked_at
        return self.queue.has_missed or since >= CHECK_SECONDS

    async def _read_up_to(self, newest: RecordedEvent) -> None:
        """Read the events up to one that does not follow, if they lead to it."""
        try:
            await self._read_log(newest)
        except StreamHole:
            raise
        except Corrupt:
            await self._read_log(None)

    async def _read_log(self, newest: RecordedEvent | None) -> None:
        """Read the events up to `newest`, or up to the last one; try later if that fails."""
        self.queue.has_missed = False
        try:
            if newest is None:
                end = await HistoryReader(
                    connection=self.connection,
                    stream=self.stream,
                    subjects=self.subjects,
                    leader=False,
                ).read_end(0 if isinstance(self.seen, int) else self.seen.stream_sequence)
                newest = end.last if end else None
                self.unreadable = end.unreadable if end else None
            self.fresh += await self._read_unseen(newest) if newest else ()
            self.failures = 0
        except Unavailable:
            self.failures += 1
            asyncio.get_running_loop().call_later(
                draw_backoff(self.failures), self.queue.mark_possible_loss
            )
        self.checked_at = asyncio.get_running_loop().time()

    async def _read_unseen(self, newest: RecordedEvent) -> list[RecordedEvent]:
        connection, stream, subjects = self.connection, self.stream, self.subjects
        if isinstance(self.seen, RecordedEvent):
            return await read_range(
                connection=connection,
                stream=stream,
                subjects=subjects,
                after=self.seen.head,
                upto=newest,
            )
        missing = newest.sequence - self.seen
        if missing <= 0:
            return []
        if missing <= SHORT_RANGE:
            return await walk_back(connection, stream, newest, missing)
        if self.seen == 0:
            return await read_range(
                connection=connection, stream=stream, subjects=subjects, after=None, upto=newest
            )
        known = await find_event(
            connection=connection, stream=stream, subjects=subjects, sequence=self.seen, upto=newest
        )
        return await read_range(
            connection=connection, stream=stream, subjects=subjects, after=known.head, upto=newest
        )


@asynccontextmanager
async def open_session_watch(
    connection: NatsConnection,
    stream: str,
    feed: LiveFeed[RecordedEvent],
    subjects: str,
    after: int,
    wake: asyncio.Event,
) -> AsyncGenerator[JetStreamSessionWatch]:
    """Watch a session's events after a sequence while the body runs."""
    key = subjects.removesuffix(".>")
    kept = None
    if await feed.open_on(connection):
        if connection.keys:
            for message in [each for each in feed.list_kept(key) if each.item is None]:
                await attach_key(connection, message)
        kept = find_kept_events(feed, key, after)
    with feed.open_queue(key, wake, kept or ()) as queue:
        queue.has_missed = kept is None
        yield JetStreamSessionWatch(
            connection=connection,
            stream=stream,
            subjects=subjects,
            feed=feed,
            queue=queue,
            seen=after,
        )


async def attach_key(connection: NatsConnection, message: LiveMessage[RecordedEvent]) -> None:
    """Give a message the key of its box, if it is a sealed event that is not decoded yet."""
    if connection.keys and message.item is None:
        message.stored = await connection.keys.attach_key(message.stored)


def find_kept_events(
    feed: LiveFeed[RecordedEvent], key: str, after: int
) -> Sequence[LiveMessage[RecordedEvent]] | None:
    """Return what a feed keeps of a session after a sequence; None if it does not reach back.

    Only these events are looked at, and the one before them, however many of the session are kept.
    """
    found = deque[LiveMessage[RecordedEvent]]()
    for message in reversed(feed.list_kept(key)):
        try:
            event = feed.decode_message(message)
        except KeyringMissing:
            return None
        except Corrupt:
            if is_stray(message.key, message.stored):
                continue
            return None
        if (event.tenant, event.session) != parse_history_key(message.key):
            continue
        sequence = event.sequence
        if sequence > after:
            found.appendleft(message)
        if sequence <= after + 1:
            return found
    return None
