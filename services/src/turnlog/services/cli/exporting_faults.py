from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from turnlog.events.codec import decode_event
from turnlog.events.errors import Corrupt
from turnlog.projections.audit.bundle import BundledSession
from turnlog.services.cli.console import create_error_console
from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.screens.spelling import format_one_line


@dataclass(slots=True)
class CheckedExportLines:
    """The lines of one session's export, checked as they pass."""

    session: str
    line_count: int = 0
    incomplete_line: bytes = b""
    """A line whose end has not arrived yet."""
    faults: list[str] = field(default_factory=list[str])

    async def forward_pieces(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Yield every piece unchanged; at the end warn about lines that cannot be decoded."""
        async for piece in pieces:
            *lines, self.incomplete_line = (self.incomplete_line + piece).split(b"\n")
            for line in lines:
                self._check_line(line)
            yield piece
        print_warnings(self.faults)

    def _check_line(self, line: bytes) -> None:
        self.line_count += 1
        try:
            decode_event(line, self.line_count)
        except Corrupt as fault:
            self.faults.append(format_unreadable_event(self.session, self.line_count, fault.detail))


def list_unreadable_events(sessions: Iterable[BundledSession]) -> list[str]:
    """Return the undecodable events that a bundle lists for its sessions."""
    return [
        format_unreadable_event(each.session, fault.number, fault.detail)
        for each in sessions
        for fault in each.unread
    ]


async def describe_late_redactions(reader: ServiceReader, sessions: Iterable[str]) -> list[str]:
    """Return a warning if replies were redacted after they had been completed.

    The texts of such replies are in the exported events.
    """
    told = 0
    for session in sessions:
        with suppress(Corrupt):  # A corrupt session is already reported by its undecodable events.
            turns = (await reader.fetch_history(session)).turns
            # Only a completed turn has a finish; a reply withheld by a rule was never completed.
            told += sum(turn.redacted and turn.finish is not None for turn in turns)
    if not told:
        return []
    replies = "1 reply was" if told == 1 else f"{told} replies were"
    return [f"{replies} redacted after being said: what was said is in the events"]


def format_unreadable_event(session: str, number: int, detail: str) -> str:
    """Return the warning for an event that cannot be decoded."""
    why = format_one_line(detail)
    return f"event {number} of session {session} cannot be read: {why}; it is there as it is stored"


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for fault in warnings:
        create_error_console().print(fault)
