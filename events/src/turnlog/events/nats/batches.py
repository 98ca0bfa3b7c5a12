from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from nats import errors

from turnlog.events.nats.connection import Absent, Connection, Silent
from turnlog.events.nats.fetching import DIRECT, Held
from turnlog.events.nats.frames import Frame, taken

PAGE_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of one batched answer, so that it does not overrun its reader."""
_STATUS: Final = b"NATS/1.0 "
"""How the headers of a server's status message begin; those of a stored message have no status."""
_NOBODY: Final = b"503"


async def run(
    connection: Connection, stream: str, subjects: str, start: int, count: int
) -> list[Held]:
    """Return up to `count` messages under `subjects` from stream sequence `start` on, in order.

    Fewer are returned if there are no more, if a follower lags, if they exceed the size of one
    answer, or if one was lost; messages after a lost one are left out.
    """
    wanted = {"seq": start, "next_by_subj": subjects, "batch": count, "max_bytes": PAGE_BYTES}
    answers = _Answers(words=1)
    async with _asking(connection, answers) as inbox:
        await connection.nc.publish(f"{DIRECT}.{stream}", json.dumps(wanted).encode(), inbox)
    found: list[Held] = []
    for frame in answers.came:
        headers = _read(frame.headers)
        before = int(headers.get(b"Nats-Last-Sequence", 0))
        if before == (found[-1].stream_sequence if found else 0):
            found.append(_held(headers, frame))
    return found


async def exacts(connection: Connection, stream: str, places: Sequence[int]) -> Mapping[int, Held]:
    """Return messages by stream sequence; one that a follower lacks may be missing."""
    answers = _Answers(words=len(places), each=True)
    async with _asking(connection, answers) as inbox:
        for place in places:
            wanted = json.dumps({"seq": place}).encode()
            await connection.nc.publish(f"{DIRECT}.{stream}", wanted, inbox)
    held = (_held(_read(frame.headers), frame) for frame in answers.came)
    return {each.stream_sequence: each for each in held}


@dataclass(slots=True)
class _Answers:
    """Collected replies; done after `remaining` status messages, or messages of any kind."""

    words: int
    each: bool = False
    """Whether a stored message also counts."""
    came: list[Frame] = field(default_factory=list[Frame])
    nobody: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, frame: Frame) -> None:
        word = frame.headers.startswith(_STATUS)
        if not word:
            self.came.append(frame)
        self.nobody |= word and frame.headers[len(_STATUS) :].startswith(_NOBODY)
        self.words -= word or self.each
        if self.words == 0 or self.nobody:
            self.over.set()


@asynccontextmanager
async def _asking(connection: Connection, answers: _Answers) -> AsyncGenerator[str]:
    """Yield an inbox for the request, and wait for the replies on leaving."""
    inbox = connection.nc.new_inbox()
    try:
        async with taken(connection.nc, inbox, answers.take):
            yield inbox
            async with asyncio.timeout(connection.patience):
                await answers.over.wait()
    except (errors.Error, TimeoutError) as error:
        raise Silent("nats", f"no end of a batch: {type(error).__name__}") from error
    if answers.nobody:
        raise Absent("nats", "nobody serves the stream")


def _held(headers: Mapping[bytes, bytes], frame: Frame) -> Held:
    return Held(
        headers[b"Nats-Subject"].decode(),
        int(headers[b"Nats-Sequence"]),
        headers.get(b"Nats-Time-Stamp", b"").decode(),
        frame.payload,
    )


def _read(headers: bytes) -> Mapping[bytes, bytes]:
    """Parse the headers of a stored message, which contain its stream sequence."""
    lines = (line.partition(b":") for line in headers.split(b"\r\n")[1:])
    return {name: value.strip() for name, _, value in lines}
