"""What clients sent and received: one half of the evidence; the log is the other.

Clients record every try of every command, answered or not, and every reply they watched. Nothing is
judged here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CommandKind = Literal["open", "submit", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTry:
    """One try of a command, from its sending to its answer or to giving up."""

    session: str
    what: CommandKind
    key: str
    """The key of the command; tries of one command share it."""
    text: str | None
    asked_at: float
    told_at: float
    status: int | None
    """None where no answer came."""
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def accepted(self) -> bool:
        """Whether the client was told that the command is on the log."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """Whether the client was told that the command is not on the log and will not be."""
        return self.status is not None and 400 <= self.status < 500


@dataclass(frozen=True, slots=True)
class HeardReply:
    """What a watcher of a turn received, over any number of connections."""

    session: str
    turn: int
    text: str
    end: str
    """The event that ended the stream: `done`, `failed`, `cancelled` or `redact`."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """A successful read of a session that asked for at least some sequence."""

    session: str
    wanted: int
    shown: int
    """The last sequence that the answer can include."""


@dataclass
class ClientHistory:
    """Everything that clients recorded, in order."""

    tries: list[CommandTry] = field(default_factory=list[CommandTry])
    heard: list[HeardReply] = field(default_factory=list[HeardReply])
    reads: list[ReadResult] = field(default_factory=list[ReadResult])
