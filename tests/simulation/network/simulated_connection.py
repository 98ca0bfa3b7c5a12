"""A process's connection to the simulated server, in place of nats-py's client.

It has the few methods of the client that the product calls, so that the real log, tokens, blobs and
snapshots work on it. A connection keeps the order of what it sends and receives, may lose either,
and may be down for a while; messages sent meanwhile arrive late or never.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.protocol.parser import Parser

from tests.simulation.fault_profiles import FAULTS_END, FaultProfile
from tests.simulation.processes.simulated_loop import SimulatedProcess
from turnlog.events.jetstream.subscriptions import RawFrame, RawParser

if TYPE_CHECKING:
    from tests.simulation.network.simulated_server import SimulatedServer


ACK_PREFIX: Final = "$JS.ACK."

DeliveryRef = tuple[int, int]
"""A delivery: the message's stream sequence, and its delivery count."""

CURRENT_DELIVERY: ContextVar[DeliveryRef | None] = ContextVar("holding", default=None)
"""The delivery on whose behalf something is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPacket:
    """A message on its way to the server."""

    subject: str
    data: bytes
    headers: Mapping[str, str] | None
    reply: str
    connection: SimulatedConnection
    delivery: DeliveryRef | None


@dataclass
class SimulatedSubscription:
    """A subscription."""

    subject: str
    callback: Callable[[Msg], Awaitable[None]] | None
    connection: SimulatedConnection
    _id: int
    """The id under which the product registers a raw frame handler."""

    async def handle_message(self, message: Msg) -> None:
        if take := self.connection.frames.handlers.get(str(self._id).encode()):
            take(build_frame(message))
        elif self.callback is not None:
            await self.callback(message)

    async def unsubscribe(self) -> None:
        self.connection.listeners.pop(self.subject, None)


@dataclass(eq=False, kw_only=True)
class SimulatedConnection:
    """The connection of one process."""

    process: SimulatedProcess
    server: SimulatedServer
    fault_profile: FaultProfile
    max_payload: int = 1_048_576
    listeners: dict[str, SimulatedSubscription] = field(
        default_factory=dict[str, SimulatedSubscription]
    )
    seen: dict[str, list[tuple[float, int]]] = field(
        default_factory=dict[str, list[tuple[float, int]]]
    )
    """By session: the stream sequences that the process has received, and how long it had run then.
    """
    closed: bool = False
    """No messages are sent or received any more."""
    _answers: dict[str, asyncio.Future[Msg]] = field(
        default_factory=dict[str, "asyncio.Future[Msg]"]
    )
    frames: RawParser = field(default_factory=lambda: RawParser(Parser()))
    """Nothing is parsed here; it says who takes what."""
    _inboxes: int = 0
    _listened: int = 0
    _down_until: float = 0.0
    _out: deque[SentPacket] = field(default_factory=deque[SentPacket])
    _in: deque[Msg] = field(default_factory=deque[Msg])
    _out_at: float = 0.0
    _in_at: float = 0.0

    def __post_init__(self) -> None:
        self.loop = self.process.loop
        self.chance = self.loop.chance
        self.server.connections.append(self)
        self._ps = self.frames  # The attribute under which nats-py keeps its parser.

    @property
    def client(self) -> Client:
        """The same object, typed as nats-py's client."""
        return cast("Client", self)

    @property
    def is_connected(self) -> bool:
        return self.loop.time() >= self._down_until

    def take_down(self, seconds: float) -> None:
        """Take the connection down for so many seconds."""
        self._down_until = self.loop.time() + seconds

    def new_inbox(self) -> str:
        self._inboxes += 1
        return f"_INBOX.{self.process.name}.{self._inboxes}"

    async def subscribe(
        self, subject: str, queue: str = "", cb: Callable[[Msg], Awaitable[None]] | None = None
    ) -> SimulatedSubscription:
        assert not queue or subject not in self.listeners, "one member of a group a connection"
        self._listened += 1
        self.listeners[subject] = SimulatedSubscription(subject, cb, self, self._listened)
        return self.listeners[subject]

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._record_acknowledgement(subject, payload)
        self._send_packet(
            subject=subject,
            payload=payload,
            reply=reply,
            headers=headers,
            lost=self.fault_profile.unheard,
        )

    async def request(
        self, subject: str, payload: bytes = b"", timeout: float = 5.0,
        headers: Mapping[str, str] | None = None,
    ) -> Msg:  # fmt: skip
        self._record_acknowledgement(subject, payload)
        inbox = self.new_inbox()
        answer = self._answers[inbox] = self.loop.create_future()
        try:
            self._send_packet(
                subject=subject,
                payload=payload,
                reply=inbox,
                headers=headers,
                lost=self.fault_profile.lost,
            )
            message: Msg = await asyncio.wait_for(answer, timeout)
        except TimeoutError:
            raise errors.TimeoutError from None
        finally:
            self._answers.pop(inbox, None)
        if (message.headers or {}).get("Status") == "503":
            raise errors.NoRespondersError
        return message

    def _record_acknowledgement(self, subject: str, payload: bytes) -> None:
        if subject.startswith(ACK_PREFIX):
            self.server.record_acknowledgement(self, subject, payload, CURRENT_DELIVERY.get())

    def draw_fault(self, chance: float) -> bool:
        """Draw whether a fault happens; never after `FAULTS_END`."""
        return self.loop.time() < FAULTS_END and self.chance.random() < chance

    def _draw_delay(self) -> float:
        slow = 50.0 if self.draw_fault(0.01) else 1.0
        return self.fault_profile.latency * slow * self.chance.random() * 2

    def _send_packet(
        self, subject: str, payload: bytes, reply: str, headers: Mapping[str, str] | None,
        lost: float,
    ) -> None:  # fmt: skip
        if self.closed or self.draw_fault(lost) or (not self.is_connected and self.draw_fault(0.3)):
            return
        packet = SentPacket(
            subject=subject,
            data=payload,
            headers=headers,
            reply=reply,
            connection=self,
            delivery=CURRENT_DELIVERY.get(),
        )
        leaves = max(self.loop.time(), self._down_until)
        self._out_at = max(self._out_at, leaves + self._draw_delay())
        self._out.append(packet)
        self.loop.call_at(self._out_at, self._forward_packet, context=self.loop.outside)

    def _forward_packet(self) -> None:
        packet = self._out.popleft()
        if self.process.alive:  # A killed process loses what it had not sent yet.
            self.server.handle_packet(packet)

    def deliver_message(self, message: Msg) -> None:
        """Send a message from the server to the process."""
        answering = message.subject in self._answers
        if not self.is_connected or self.draw_fault(
            self.fault_profile.lost if answering else self.fault_profile.unheard
        ):
            return
        self._in_at = max(self._in_at, self.loop.time() + self._draw_delay())
        self._in.append(message)
        self.loop.call_at(self._in_at, self._receive_message, context=self.process.context)

    def _receive_message(self) -> None:
        message = self._in.popleft()
        if self.closed:
            return
        self._record_seen(message)
        if answer := self._answers.get(message.subject):
            if not answer.done():
                answer.set_result(message)
        elif listener := self.listeners.get(message.subject) or self._find_wildcard(
            message.subject
        ):
            run_callback(listener.handle_message(message))

    def has_subscription(self, subject: str) -> bool:
        """Tell whether the process subscribes to a subject."""
        return subject in self.listeners or self._find_wildcard(subject) is not None

    def _find_wildcard(self, subject: str) -> SimulatedSubscription | None:
        fits = (
            each for name, each in self.listeners.items()
            if name.endswith(".>") and subject.startswith(name[:-1])
        )  # fmt: skip
        return next(fits, None)

    def _record_seen(self, message: Msg) -> None:
        for session, sequence in self.server.iterate_sessions(message):
            self.seen.setdefault(session, []).append((self.process.awake_for, sequence))


def build_frame(message: Msg) -> RawFrame:
    """Give a message as it comes over a wire."""
    headers = dict(message.headers or {})
    first = "NATS/1.0 " + headers.pop("Status") if "Status" in headers else "NATS/1.0"
    lines = [first, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    head = "\r\n".join(lines).encode()
    return RawFrame(message.subject.encode(), message.reply.encode(), head, message.data)


def run_callback(step: Awaitable[None]) -> None:
    """Run a callback that must not wait, as nats-py runs callbacks one after another."""
    for _ in step.__await__():
        raise AssertionError("it waits for something")
