"""Raw subscriptions of core NATS, which take their messages from the wire before nats-py does.

For every message nats-py parses all headers, creates an object and passes it through a queue to a
task: 8.1 us of processor time from the socket to a callback, and 2.4 in this way (`python -m
benchmarks.library_patches`). nats-py does everything else as before: connecting, answering,
resubscribing. Its parser has no public interface, so only this module depends on it, and nats-py is
pinned to one minor version.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from nats.aio.client import Client
from nats.protocol.parser import AWAITING_MSG_PAYLOAD, Parser

from turnlog.events.jetstream.nats_connection import open_subscription

_LINE_END: Final = b"\r\n"

_WORDS_WITH_REPLY: Final = 5
"""Words of a message line with a reply subject and without headers; with headers it is one more."""


class RawFrame(NamedTuple):
    """A message as it is on the wire."""

    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes


FrameHandler = Callable[[RawFrame], None]

_STATUS_LINE_START: Final = b"NATS/1.0 "
"""How the headers of a server's status message begin; those of a stored message have no status."""


def is_status_message(headers: bytes) -> bool:
    """Return whether headers are those of a status message of the server."""
    return headers.startswith(_STATUS_LINE_START)


def parse_headers(headers: bytes) -> dict[str, str]:
    """Return headers as nats-py does: by name, with the status line as Status and Description.

    It stands beside nats-py's parser for speed alone: 1.3 instead of 3.2 microseconds for the
    headers of a stored message (`python -m benchmarks.library_patches headers`).
    """
    first, *lines = headers.decode().rstrip().split("\r\n")
    _, *words = first.split(" ", 2)
    parsed: dict[str, str] = dict(zip(("Status", "Description"), words, strict=False))
    for line in lines:
        name, _, value = line.partition(":")
        parsed[name] = value.strip()
    return parsed


@dataclass
class RawParser:
    """Wraps nats-py's parser and replaces it in the client."""

    parser: Parser
    handlers: dict[bytes, FrameHandler] = field(default_factory=dict[bytes, FrameHandler])
    """Handlers by subscription id, as spelt on the wire."""
    partial_message: bytearray = field(default_factory=bytearray)
    """The beginning of a message that is not complete yet."""
    needed: int = 0
    """Minimum length of that message in bytes."""

    def reset(self) -> None:
        """Drop the partial message: the client has a new connection."""
        self.partial_message, self.needed = bytearray(), 0
        self.parser.reset()

    async def parse(self, data: bytes = b"") -> None:
        """Handle messages of raw subscriptions; pass the others to nats-py as whole messages."""
        if self.handlers or self.partial_message:
            owed = self._count_owed_bytes()
            data = data[:owed] + self._extract_frames(data[owed:])
        if data:
            await self.parser.parse(data)

    def _count_owed_bytes(self) -> int:
        """Return how many bytes are missing of a message that nats-py began to parse."""
        parser = self.parser
        if parser.state == AWAITING_MSG_PAYLOAD:
            return parser.needed + len(_LINE_END) - len(parser.buf)
        # nats-py has read only part of the message line; continue it here.
        self.partial_message[:0], parser.buf = parser.buf, bytearray()
        return 0

    def _extract_frames(self, data: bytes) -> bytes:
        self.partial_message += data
        if len(self.partial_message) < self.needed:
            return b""
        buffer, at, rest = bytes(self.partial_message), 0, list[bytes]()
        while (end := buffer.find(_LINE_END, at)) >= 0:
            words = buffer[at:end].split()
            start = end + len(_LINE_END)
            size = _parse_payload_size(words)
            self.needed = start + size - at
            if start + size > len(buffer):
                break
            take = self.handlers.get(words[2]) if size else None
            if take:
                take(_parse_frame(words, buffer[start : start + size - len(_LINE_END)]))
            else:
                rest.append(buffer[at : start + size])
            at, self.needed = start + size, 0
        self.partial_message = bytearray(buffer[at:])
        return b"".join(rest)


def _parse_payload_size(words: list[bytes]) -> int:
    """Return the payload size that a line announces; 0 if it is not a message."""
    if words and words[0] in {b"MSG", b"HMSG"} and words[-1].isdigit():
        return int(words[-1]) + len(_LINE_END)
    return 0


def _parse_frame(words: list[bytes], message: bytes) -> RawFrame:
    """Split a message into its fields, by the words of its line."""
    if words[0] == b"MSG":
        return RawFrame(
            words[1], words[3] if len(words) == _WORDS_WITH_REPLY else b"", b"", message
        )
    body = int(words[-2])
    reply = words[3] if len(words) > _WORDS_WITH_REPLY else b""
    return RawFrame(words[1], reply, message[:body], message[body:])


async def add_raw_subscription(nc: Client, subject: str, handler: FrameHandler) -> None:
    """Subscribe, and pass the messages to `handler` as long as the client lives."""
    inbox = await nc.subscribe(subject)
    _install_parser(nc).handlers[_get_subscription_id(inbox)] = handler


@asynccontextmanager
async def subscribe_raw(nc: Client, subject: str, handler: FrameHandler) -> AsyncGenerator[None]:
    """Subscribe, and pass the messages to `handler` while the body runs."""
    async with open_subscription(nc, subject) as inbox:
        frames, number = _install_parser(nc), _get_subscription_id(inbox)
        frames.handlers[number] = handler
        try:
            yield
        finally:
            del frames.handlers[number]


def _install_parser(client: Any) -> RawParser:  # noqa: ANN401 its parser is private
    if not isinstance(client._ps, RawParser):  # noqa: SLF001
        client._ps = RawParser(client._ps)  # noqa: SLF001
    frames: RawParser = client._ps  # noqa: SLF001
    return frames


def _get_subscription_id(inbox: Any) -> bytes:  # noqa: ANN401 the number is private too
    return str(inbox._id).encode()  # noqa: SLF001
