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
    """The lines of one session's export, checked as they pass."""

    session: str
    number: int = 0
    begun: bytes = b""
    """A line whose end has not arrived yet."""
    faults: list[str] = field(default_factory=list[str])

    async def passed(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Yield every piece unchanged; at the end warn about lines that cannot be decoded."""
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
    """Return the undecodable events that a bundle lists for its sessions."""
    return [
        spelt(each.session, fault.number, fault.detail)
        for each in sessions
        for fault in each.unread
    ]


async def said_before(reader: Reader, sessions: Iterable[str]) -> list[str]:
    """Return a warning if replies were redacted after they had been completed.

    The texts of such replies are in the exported events.
    """
    told = 0
    for session in sessions:
        with suppress(Corrupt):  # A corrupt session is already reported by its undecodable events.
            turns = (await reader.history(session)).turns
            # Only a completed turn has a finish; a reply withheld by a rule was never completed.
            told += sum(turn.redacted and turn.finish is not None for turn in turns)
    if not told:
        return []
    replies = "1 reply was" if told == 1 else f"{told} replies were"
    return [f"{replies} redacted after being said: what was said is in the events"]


def spelt(session: str, number: int, detail: str) -> str:
    """Return the warning for an event that cannot be decoded."""
    why = one_line(detail)
    return f"event {number} of session {session} cannot be read: {why}; it is there as it is stored"


def tell(faults: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for fault in faults:
        remarks().print(fault)
