"""What clients did and what they were told: the one side of the evidence; the log is the other.

Clients write down every try of every command, whether or not it was answered, and what they heard
of every reply. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

What = Literal["open", "submit", "other"]


@dataclass(frozen=True, slots=True)
class Try:
    """One try of a command, from sending it to its answer, or to the end of all hope for one."""

    session: str
    what: What
    key: str
    """Of the command; tries of the same command share it."""
    text: str | None
    asked_at: float
    told_at: float
    status: int | None
    """None where no answer came."""
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def accepted(self) -> bool:
        """Whether the client was told that it is on the log."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """Whether the client was told that it is not on the log and will not be."""
        return self.status is not None and 400 <= self.status < 500


@dataclass(frozen=True, slots=True)
class Heard:
    """What a watcher of a turn was left with, over however many connections."""

    session: str
    turn: int
    text: str
    end: str
    """The event that ended the stream: `done`, `failed`, `cancelled` or `redact`."""


@dataclass(frozen=True, slots=True)
class Look:
    """A successful read of a session that asked for at least some sequence."""

    session: str
    wanted: int
    shown: int
    """The last sequence that what came can have been made from."""


@dataclass
class History:
    """Everything that clients wrote down, in the order they did."""

    tries: list[Try] = field(default_factory=list[Try])
    heard: list[Heard] = field(default_factory=list[Heard])
    looks: list[Look] = field(default_factory=list[Look])
