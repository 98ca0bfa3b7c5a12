"""What a consumer of these tests stores in one write: its place, and what it made of what it read.

All of them write this file, whatever their language. The digest is a chain over the events in the
order in which they are stored, so one that is lost, repeated or moved changes it.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Self

from pydantic import BaseModel


class ReplyText(BaseModel):
    """The text of a turn's reply, as its tokens said."""

    attempt: int = 0
    text: str = ""
    is_cut: bool = False
    """Whether the consumer knows that it did not see all tokens."""

    def add_token(self, kind: str, attempt: int, offset: int = 0, text: str = "") -> None:
        """Put a piece where its offset says."""
        if attempt < self.attempt:
            return
        if attempt > self.attempt or kind == "attempt-reset":
            self.attempt, self.text = attempt, ""
        if kind == "token" and offset > len(self.text):
            self.is_cut = True
        elif kind == "token":
            self.text = self.text[:offset] + text


class ChainLink(BaseModel):
    """The latest event of a session."""

    sequence: int
    hash: str


class ConsumerState(BaseModel):
    """The state of a consumer, which it replaces as a whole."""

    place: int = 0
    """The stream sequence of the latest message of `SESSIONS`."""
    tokens_place: int = 0
    """The stream sequence of the latest message of `TOKENS`; where tokens are joined with events,
    the number of events that they were joined with."""
    cursor: str | None = None
    cursors: dict[str, str] = {}
    """Of the tokens of each session."""
    joined: dict[str, int] = {}
    """The latest event that tokens were joined with, by session."""
    count: int = 0
    digest: str = ""
    links: dict[str, ChainLink] = {}
    replies: dict[str, ReplyText] = {}
    """By session and turn."""

    @classmethod
    def load(cls, file: Path) -> Self:
        """Return what the file has; a state without events where there is none."""
        return cls.model_validate_json(file.read_bytes()) if file.exists() else cls()

    def save(self, file: Path) -> None:
        """Replace the file, and print how far the consumer is."""
        new = file.with_suffix(".new")
        new.write_text(self.model_dump_json())
        new.replace(file)
        print(self.count, self.tokens_place, flush=True)

    def add_event(
        self, *, session: str, sequence: int, kind: str, prevhash: str | None, stored: bytes
    ) -> None:
        """Add an event to the digest; raises ValueError if it does not continue its session."""
        before = self.links.get(session)
        if (sequence - 1, prevhash) != ((before.sequence, before.hash) if before else (0, None)):
            raise ValueError(f"event {sequence} of {session} does not continue the one before")
        digest = sha256(stored).hexdigest()
        self.links[session] = ChainLink(sequence=sequence, hash=f"sha256:{digest}")
        self.count += 1
        line = f"{self.digest} {session} {sequence} {kind} {digest}"
        self.digest = sha256(line.encode()).hexdigest()

    def find_reply(self, session: str, turn: int | str) -> ReplyText:
        """Return the text of a turn, to add tokens to."""
        return self.replies.setdefault(f"{session}/{turn}", ReplyText())
