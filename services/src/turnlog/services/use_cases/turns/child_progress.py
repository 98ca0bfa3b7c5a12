"""What a child of a coordinator's turn is doing, folded from two logs and a token stream.

The parent's log has that it was asked and what came of it, the child's log which tools it runs, and
its token stream how much of a reply it has written. The logs and the tokens arrive in no mutual
order; an attempt number decides which of two signs is the later one. Nothing here does I/O, and
nothing of what the child reads or writes is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.child_events import ChildOutcome
from turnlog.events.model.tool_events import ToolStarted
from turnlog.events.tokens import AttemptReset, Token, TokenEvent

REPORT_SECONDS: Final = 1.0
"""Seconds between two reports that differ in the number of characters only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildProgress:
    """The present state of a child's turn, as a watcher of its parent's turn sees it."""

    session: str
    """The child session."""
    turn: int
    """The number of the turn in it."""
    parent: str
    """The session that asked for it: that of the watched turn, or a child of it."""
    call: str
    """The call of the parent whose answer asked."""
    profile: str
    """The profile of the child."""
    doing: Literal["started", "tool", "text", "ended"] = "started"
    tool: str | None = None
    """The tool that it runs."""
    characters: int = 0
    """The length of the text that it has written in this call."""
    outcome: ChildOutcome | None = None
    """What came of it, once it ended."""

    @property
    def key(self) -> tuple[str, int]:
        """Session and turn of the child."""
        return self.session, self.turn


@dataclass(slots=True)
class ChildProgressFold:
    """Folds the signs of one child's turn, and decides when a watcher gets the next report."""

    current: ChildProgress
    attempt: int = 0
    """The latest attempt of the child that gave a sign."""
    reported: ChildProgress | None = None
    reported_at: float = 0.0

    def apply_event(self, recorded: RecordedEvent) -> None:
        """Apply an event of the child's log."""
        match recorded.event:
            case AttemptStarted(turn=turn, attempt=attempt) if turn == self.current.turn:
                self._begin_attempt(attempt)
            case ToolStarted(turn=turn, attempt=attempt, tool=tool) if turn == self.current.turn:
                self._begin_attempt(attempt)
                # The tools of an attempt run before it writes, whatever arrives first.
                if attempt == self.attempt and not self.current.characters:
                    self._change(doing="tool", tool=tool)
            case _:
                pass

    def apply_token(self, event: TokenEvent) -> None:
        """Apply an event of the child's token stream."""
        match event:
            case Token(attempt=attempt, offset=offset, text=text) if attempt >= self.attempt:
                self._begin_attempt(attempt)
                characters = max(self.current.characters, offset + len(text))
                self._change(doing="text", characters=characters)
            case AttemptReset(attempt=attempt):
                self._begin_attempt(attempt)
            case _:
                pass

    def settle(self, outcome: ChildOutcome) -> None:
        """Apply that the parent's log has the end of the child's turn; no later sign counts."""
        self._change(doing="ended", outcome=outcome)

    def take_report(self, now: float) -> ChildProgress | None:
        """Return the present state if a report is due at `now`, in seconds, and count it as sent.

        A change of what the child does is due at once, a number of characters once a second.
        """
        current, reported = self.current, self.reported
        if current == reported:
            return None
        is_count = reported is not None and current == replace(
            reported, characters=current.characters
        )
        if is_count and now - self.reported_at < REPORT_SECONDS:
            return None
        self.reported, self.reported_at = current, now
        return current

    def _begin_attempt(self, attempt: int) -> None:
        if attempt > self.attempt:
            self.attempt = attempt
            self._change(doing="started")

    def _change(
        self,
        *,
        doing: Literal["started", "tool", "text", "ended"],
        tool: str | None = None,
        characters: int = 0,
        outcome: ChildOutcome | None = None,
    ) -> None:
        if self.current.doing != "ended":
            self.current = replace(
                self.current, doing=doing, tool=tool, characters=characters, outcome=outcome
            )
