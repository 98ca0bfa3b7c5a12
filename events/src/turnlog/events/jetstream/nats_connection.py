"""The connection to NATS: one per process, and it reconnects without limit.

nats-py stops reconnecting after two minutes and then stays closed; this connection retries forever,
at random intervals. A server that vanishes without closing the connection is left within six
seconds; nats-py would notice it after five minutes. The connection distinguishes two failures that
mean different things to a writer: the request was certainly not sent, or its outcome is unknown.
The process decides what to do when the connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from nats import errors
from nats.aio.client import Client, Server
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from turnlog.events.archive.message_archive import MessageArchive
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.errors import KeyringMissing, TurnlogError, Unavailable
from turnlog.events.seals.key_ports import SealingKeys
from turnlog.events.subjects import SERVICE_INBOX, SESSIONS_STREAM

PENDING_BYTES: Final = 8 * 1024 * 1024
"""Bytes buffered for sending while the connection is down."""

MAX_RECONNECT_WAIT: Final = 2.0
"""Maximum seconds between two reconnects."""

PING_SECONDS: Final = 3
"""Seconds between two pings. The server of an unanswered one is left at the next, so a host that
vanishes without closing its connections is noticed within twice as long.
"""

CLOSE_SECONDS: Final = 2
"""Seconds that buffered data may take to be sent when the connection is closed."""

CLOSED_SECONDS: Final = 0.1
"""Seconds until whoever publishes on a closed connection is told so."""

CONNECT_SECONDS: Final = 2
"""Seconds that one server has to take a connection; the next one is tried after that."""

_UNSENT_ERRORS: Final = (
    errors.NoRespondersError,
    errors.ConnectionClosedError,
    errors.ConnectionDrainingError,
    errors.OutboundBufferLimitError,
)


class RequestNotSent(Unavailable):
    """The request did not reach anyone; it was certainly not carried out."""


class RequestUnanswered(Unavailable):
    """No answer in time; the request may have been carried out, or may still be."""


class RequestDenied(RequestNotSent):
    """The server lets this login publish nothing there; nobody got the request."""


MAX_DENIED_SUBJECTS: Final = 1_000
"""Subjects that are noted as denied; with more the notes begin again."""

_DENIED_PUBLISH: Final = re.compile(r'permissions violation for publish to "([^"]+)"')
"""What nats-py makes of the server's refusal, all in small letters."""


class AbortingClient(Client):
    """A client that drops what it could not send to a server that it leaves.

    nats-py closes the connection before it makes another one, and waits until everything is sent.
    To a host that has vanished nothing is sent until the kernel gives up, after a quarter of an
    hour; `tests/events/test_vanished_server.py` shows it.
    """

    async def _attempt_reconnect(self) -> None:
        self.abort_connection()
        if self._current_server is not None:
            self._current_server.reconnects += 1  # Others are tried before the one that is left.
        await super()._attempt_reconnect()

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Publish a message; on a closed connection the error takes a moment.

        A subscriber of FastStream asks again at once after that error. Without the moment it would
        hold the event loop for good, and the process would not even notice a signal.
        """
        if self.is_closed:
            await asyncio.sleep(CLOSED_SECONDS)
        await super().publish(subject, payload, reply, headers)

    def abort_connection(self) -> None:
        """End the connection to the current server, and with it what is not sent."""
        writer: asyncio.StreamWriter | None = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsConnection:
    """An open connection; a request on it may take up to `patience` seconds."""

    nc: Client
    patience: float
    reconnect_listeners: set[Callable[[], None]] = field(default_factory=set[Callable[[], None]])
    """Callbacks that are called after each reconnect."""
    denied_subjects: set[str] = field(default_factory=set[str])
    """Subjects, in small letters, that the server has refused this login to publish to."""
    keys: SealingKeys | None = None
    """The keys of what is read on the connection; None without a keyring."""
    archive: MessageArchive | None = None
    """What was moved out of the stream of sessions; None where nothing was."""

    def find_archive(self, stream: str) -> MessageArchive | None:
        """Return where the messages are that were moved out of a stream, or None."""
        return self.archive if stream == SESSIONS_STREAM else None

    @property
    def is_connected(self) -> bool:
        """Whether a server is connected right now."""
        return self.nc.is_connected

    @property
    def server(self) -> str:
        """Host and port of the server that is connected, or was last."""
        return self.nc.connected_url.netloc.rpartition("@")[2] if self.nc.connected_url else ""

    @property
    def reconnect_count(self) -> int:
        """How often the connection was made again; it rises before requests are sent on it."""
        return self.nc.stats["reconnects"]

    @contextmanager
    def watch_reconnects(self, listener: Callable[[], None]) -> Generator[None]:
        """Call `listener` after each reconnect while the body runs.

        Messages in flight may be lost at a reconnect.
        """
        self.reconnect_listeners.add(listener)
        try:
            yield
        finally:
            self.reconnect_listeners.remove(listener)

    @property
    def inbox_prefix(self) -> str:
        """What the inboxes of this connection begin with."""
        return self.nc.new_inbox().rpartition(".")[0]

    async def note_error(self, error: Exception) -> None:
        """Log an error of the connection, and note what this login may not publish to."""
        await _log_warning(error)
        if found := _DENIED_PUBLISH.search(str(error)):
            if len(self.denied_subjects) >= MAX_DENIED_SUBJECTS:
                self.denied_subjects.clear()
            self.denied_subjects.add(found[1])

    async def send_request(
        self,
        subject: str,
        payload: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        patience: float | None = None,
    ) -> Msg:
        """Send a request and wait for one answer, for `patience` seconds if they are given.

        Raises `RequestNotSent` or `RequestUnanswered`.
        """
        named = dict(headers) if headers else None
        if self.denied_subjects:
            self.denied_subjects.discard(subject.lower())
        task = asyncio.current_task()
        cancelled = task.cancelling() if task else 0
        try:
            timeout = self.patience if patience is None else patience
            return await self.nc.request(subject, payload, timeout=timeout, headers=named)
        except _UNSENT_ERRORS as error:
            raise RequestNotSent("nats", f"{subject}: {type(error).__name__}") from error
        except errors.Error as error:
            if subject.lower() in self.denied_subjects:
                raise RequestDenied("nats", f"this login may not publish to {subject}") from error
            raise RequestUnanswered("nats", f"{subject}: {type(error).__name__}") from error
        finally:
            # On Python 3.11 nats-py swallows a cancellation that arrives together with the answer.
            if task and task.cancelling() > cancelled:
                raise asyncio.CancelledError


def require_keys(connection: NatsConnection, place: str) -> SealingKeys:
    """Return the keys of a connection; raises `KeyringMissing` without a keyring."""
    if connection.keys is None:
        raise KeyringMissing(place)
    return connection.keys


MessageCallback = Callable[[Msg], Awaitable[None]]


@asynccontextmanager
async def open_subscription(
    nc: Client, subject: str, callback: MessageCallback | None = None, *, group: str = ""
) -> AsyncGenerator[Subscription]:
    """Subscribe to a subject while the body runs; of a group, one member gets each message."""
    subscription = await nc.subscribe(subject, queue=group, cb=callback)
    try:
        yield subscription
    finally:
        with suppress(errors.Error):  # A closed connection has already dropped the subscription.
            await subscription.unsubscribe()


@asynccontextmanager
async def answer_requests(
    connection: NatsConnection, subject: str, answer: Callable[[], Awaitable[bytes | None]]
) -> AsyncGenerator[None]:
    """Answer each request on a subject while the body runs; None leaves it to others."""

    async def respond(request: Msg) -> None:
        payload = await answer()
        if payload is not None:
            await request.respond(payload)

    async with open_subscription(connection.nc, subject, respond):
        yield


AnswerQuery = Callable[[bytes], Awaitable[bytes]]
"""Returns the response to a request; it raises nothing."""


@asynccontextmanager
async def answer_queries(
    connection: NatsConnection, subject: str, answer: AnswerQuery
) -> AsyncGenerator[None]:
    """Answer requests on a subject, several at once, while the body runs.

    Of all processes that answer on the subject, one gets each request.
    """
    running: set[asyncio.Task[None]] = set()

    async def respond(request: Msg) -> None:
        response = await answer(request.data)
        with suppress(errors.Error):  # Whoever asked asks again.
            await request.respond(response)

    async def start(request: Msg) -> None:
        task = asyncio.create_task(respond(request))
        running.add(task)
        task.add_done_callback(running.discard)

    try:
        async with open_subscription(connection.nc, subject, start, group="answers"):
            yield
    finally:
        await cancel_tasks(*running)


ReconnectHook = Callable[[NatsConnection], Awaitable[None]]
"""Called after each reconnect; cancelled by the next disconnect and on leaving."""


_INBOX_USER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def build_service_inbox(url: str) -> str:
    """Return the prefix of the inboxes of a process of Turnlog: one for each user of NATS.

    A user who may subscribe below the own prefix only sees no answer that another one gets.
    """
    first = urlsplit(url.partition(",")[0])
    user = unquote(first.username or "") if first.password else ""
    return f"{SERVICE_INBOX}.{user}" if _INBOX_USER.fullmatch(user) else SERVICE_INBOX


@asynccontextmanager
async def open_connection(
    url: str,
    *,
    name: str = "turnlog",
    patience: float = 5.0,
    inbox_prefix: str = "_INBOX",
    on_reconnect: ReconnectHook | None = None,
    on_closed: Callable[[], None] | None = None,
) -> AsyncGenerator[NatsConnection]:
    """Connect within `patience` seconds or raise `Unavailable`; close on leaving.

    `on_closed` is called if the connection is closed for any other reason than leaving. A private
    `inbox_prefix` prevents other users of the account from reading the answers.
    """
    nc = AbortingClient()
    connection = NatsConnection(nc=nc, patience=patience)
    leaving = asyncio.Event()

    async def handle_reconnect() -> None:
        for tell in tuple(connection.reconnect_listeners):
            tell()
        if on_reconnect is not None:
            await _run_hook(on_reconnect, connection)

    async def handle_close() -> None:
        if on_closed is not None and not leaving.is_set():
            on_closed()

    await _connect_client(
        connection, url, name=name, inbox_prefix=inbox_prefix, reconnected_cb=handle_reconnect,
        closed_cb=handle_close,
    )  # fmt: skip
    try:
        yield connection
    finally:
        leaving.set()
        await _close_client(nc)


async def _connect_client(connection: NatsConnection, url: str, **options: Any) -> None:  # noqa: ANN401
    nc = connection.nc
    first = urlsplit(url.partition(",")[0])
    try:
        async with asyncio.timeout(connection.patience):
            await nc.connect(
                url.split(","),
                error_cb=connection.note_error,
                reconnect_to_server_handler=_choose_server,
                max_reconnect_attempts=-1,
                connect_timeout=CONNECT_SECONDS,
                ping_interval=PING_SECONDS,
                max_outstanding_pings=1,
                pending_size=PENDING_BYTES,
                # Credentials for all servers: addresses that the cluster announces come without
                # them.
                user=first.username if first.password else None,
                password=first.password,
                token=None if first.password else first.username,
                **options,
            )
    except (OSError, errors.Error) as error:  # A `TimeoutError` is an `OSError`.
        reason = nc.last_error or error
        await nc.close()
        raise Unavailable("nats", f"no connection: {_describe_error(reason)}") from error


async def _close_client(nc: AbortingClient) -> None:
    """Close the connection after sending buffered data, if a server is connected."""
    try:
        if nc.is_connected:
            await nc.flush(timeout=CLOSE_SECONDS)
    except errors.Error as error:
        nc.abort_connection()
        await _log_warning(error)
    try:
        await nc.close()
    except OSError as error:  # The server has gone, and with it what was buffered meanwhile.
        await _log_warning(error)


async def find_answering_server(connection: NatsConnection) -> str | None:
    """Return host and port of a server that greets new clients, or None if none of them does."""
    places = {(url.hostname, url.port) for url in connection.nc.servers}
    answers = await asyncio.gather(*(_is_answering(host, port) for host, port in places))
    return next(
        (f"{host}:{port}" for (host, port), greets in zip(places, answers, strict=True) if greets),
        None,
    )


async def _is_answering(host: str | None, port: int | None) -> bool:
    with suppress(OSError):  # A `TimeoutError` is an `OSError`.
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                return (await reader.readline()).startswith(b"INFO ")
            finally:
                writer.close()
    return False


async def _run_hook(hook: ReconnectHook, connection: NatsConnection) -> None:
    # No exception may escape: nats-py would treat it as a failed reconnect and start again.
    try:
        await hook(connection)
    except TurnlogError as error:
        await _log_warning(error)


async def _log_warning(error: Exception) -> None:
    logging.getLogger(__name__).warning("nats: %s", _describe_error(error))


def _describe_error(error: Exception) -> str:
    return str(error) or type(error).__name__


def _choose_server(servers: list[Server], info: dict[str, Any]) -> tuple[Server | None, float]:
    del info
    # Of those that failed least since they were last connected, so that a host that has vanished
    # costs its time limit once.
    fewest = min(server.reconnects for server in servers)
    likely = [server for server in servers if server.reconnects == fewest]
    server = random.choice(likely)  # noqa: S311 -- spreads, guards nothing
    longest = min(MAX_RECONNECT_WAIT, 0.1 * 2.0 ** min(server.reconnects, 10))
    return server, random.uniform(0, longest)  # noqa: S311


FIRST_BACKOFF: Final = 0.05
"""Maximum seconds of the first wait."""

MAX_BACKOFF: Final = 1.0
"""Maximum seconds of any wait."""


async def wait_backoff(failures: int) -> None:
    """Wait before a retry, longer on average with each failure in a row.

    Waits are random, so that clients of a restarted server do not all return at once.
    """
    await asyncio.sleep(draw_backoff(failures))


def draw_backoff(failures: int) -> float:
    """Return the seconds of such a wait."""
    longest = min(MAX_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures, 10))
    return random.uniform(0, longest)  # noqa: S311 -- spreads, guards nothing
