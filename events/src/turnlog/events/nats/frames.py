from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from nats.aio.client import Client
from nats.protocol.parser import AWAITING_MSG_PAYLOAD, Parser

from turnlog.events.nats.connection import subscribed

_END: Final = b"\r\n"
_ANSWERED: Final = 5
"""Words of a message line with a reply subject and without headers; with headers it is one more."""


class Frame(NamedTuple):
    """A message as it is on the wire."""

    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes


Take = Callable[[Frame], None]


@dataclass
class Frames:
    """Wraps nats-py's parser and replaces it in the client."""

    parser: Parser
    takers: dict[bytes, Take] = field(default_factory=dict[bytes, Take])
    """Handlers by subscription id, as spelt on the wire."""
    begun: bytearray = field(default_factory=bytearray)
    """The beginning of a message that is not complete yet."""
    needed: int = 0
    """Minimum length of that message in bytes."""

    def reset(self) -> None:
        """Drop the partial message: the client has a new connection."""
        self.begun, self.needed = bytearray(), 0
        self.parser.reset()

    async def parse(self, data: bytes = b"") -> None:
        """Handle messages of raw subscriptions; pass the others to nats-py as whole messages."""
        if self.takers or self.begun:
            owed = self._owed()
            data = data[:owed] + self._cut(data[owed:])
        if data:
            await self.parser.parse(data)

    def _owed(self) -> int:
        """Return how many bytes are missing of a message that nats-py began to parse."""
        parser = self.parser
        if parser.state == AWAITING_MSG_PAYLOAD:
            return parser.needed + len(_END) - len(parser.buf)
        # nats-py has read only part of the message line; continue it here.
        self.begun[:0], parser.buf = parser.buf, bytearray()
        return 0

    def _cut(self, data: bytes) -> bytes:
        self.begun += data
        if len(self.begun) < self.needed:
            return b""
        came, at, rest = bytes(self.begun), 0, list[bytes]()
        while (end := came.find(_END, at)) >= 0:
            words = came[at:end].split()
            start = end + len(_END)
            size = _size(words)
            self.needed = start + size - at
            if start + size > len(came):
                break
            take = self.takers.get(words[2]) if size else None
            if take:
                take(_frame(words, came[start : start + size - len(_END)]))
            else:
                rest.append(came[at : start + size])
            at, self.needed = start + size, 0
        self.begun = bytearray(came[at:])
        return b"".join(rest)


def _size(words: list[bytes]) -> int:
    """Return the payload size that a line announces; 0 if it is not a message."""
    if words and words[0] in {b"MSG", b"HMSG"} and words[-1].isdigit():
        return int(words[-1]) + len(_END)
    return 0


def _frame(words: list[bytes], message: bytes) -> Frame:
    """Split a message into its fields, by the words of its line."""
    if words[0] == b"MSG":
        return Frame(words[1], words[3] if len(words) == _ANSWERED else b"", b"", message)
    body = int(words[-2])
    reply = words[3] if len(words) > _ANSWERED else b""
    return Frame(words[1], reply, message[:body], message[body:])


@asynccontextmanager
async def taken(nc: Client, subject: str, take: Take) -> AsyncGenerator[None]:
    """Subscribe, and pass the messages to `handler` while the body runs."""
    async with subscribed(nc, subject) as inbox:
        frames, number = _frames(nc), _number(inbox)
        frames.takers[number] = take
        try:
            yield
        finally:
            del frames.takers[number]


def _frames(client: Any) -> Frames:  # noqa: ANN401 its parser is private
    if not isinstance(client._ps, Frames):  # noqa: SLF001
        client._ps = Frames(client._ps)  # noqa: SLF001
    frames: Frames = client._ps  # noqa: SLF001
    return frames


def _number(inbox: Any) -> bytes:  # noqa: ANN401 the number is private too
    return str(inbox._id).encode()  # noqa: SLF001
