"""What somebody has to be told of an export: it is all there as it is stored, for good or ill.

What cannot be read is found as lines pass, and a bundle says it itself; replies that were redacted
after they were said are counted by the history. Nothing is left out and nothing mended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from turnlog.events.codec import read
from turnlog.events.errors import Corrupt
from turnlog.projections.audit.bundle import Bundled
from turnlog.services.cli.console import remarks
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.spelling import one_line


@dataclass(slots=True)
class Lines:
    """The lines of a session, as far as they have passed."""

    session: str
    number: int = 0
    begun: bytes = b""
    """A line whose end is still to come."""
    faults: list[str] = field(default_factory=list[str])

    async def passed(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Hand on what comes; at the end, say what of it cannot be read."""
        async for piece in pieces:
            *lines, self.begun = (self.begun + piece).split(b"\n")
            for line in lines:
                self._look(line)
            yield piece
        tell(self.faults)

    def _look(self, line: bytes) -> None:
        self.number += 1
        try:
            read(line, self.number)
        except Corrupt as fault:
            self.faults.append(spelt(self.session, self.number, fault.detail))


def unread(sessions: Iterable[Bundled]) -> list[str]:
    """Say what a bundle says of its sessions."""
    return [
        spelt(each.session, fault.number, fault.detail)
        for each in sessions
        for fault in each.unread
    ]


async def said_before(reader: Reader, sessions: Iterable[str]) -> list[str]:
    """Say how many replies were redacted too late for their texts not to be there."""
    told = 0
    for session in sessions:
        with suppress(Corrupt):  # of a broken session is told what cannot be read
            turns = (await reader.history(session)).turns
            # Only what was completed has a finish: a reply that a rule withheld never was
            told += sum(turn.redacted and turn.finish is not None for turn in turns)
    if not told:
        return []
    replies = "1 reply was" if told == 1 else f"{told} replies were"
    return [f"{replies} redacted after being said: what was said is in the events"]


def spelt(session: str, number: int, detail: str) -> str:
    """Name an event that cannot be read."""
    why = one_line(detail)
    return f"event {number} of session {session} cannot be read: {why}; it is there as it is stored"


def tell(faults: Iterable[str]) -> None:
    """Say it where it is in the way of no output."""
    for fault in faults:
        remarks().print(fault)
