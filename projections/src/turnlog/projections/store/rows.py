"""What the read models answer with: frozen rows, free of SQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue

from turnlog.events.content import Digest


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as a list shows it. Times are the events' own, RFC 3339 in UTC."""

    session: str
    blueprint: str
    blueprint_version: int
    blueprint_digest: Digest
    profile: str
    attributes: dict[str, JsonValue]
    title: str | None
    """The first turn's text on one line; none while there is none that may be shown."""
    turns: int
    """Turns so far, of whatever fate."""
    redacted: bool
    """Whether any reply of it was."""
    opened_at: str
    opened_position: int
    closed_at: str | None
    last_sequence: int
    last_at: str
    origin_kind: str | None
    origin_session: str | None
    origin_sequence: int | None


@dataclass(frozen=True, slots=True)
class Page:
    """Some sessions, newest first."""

    sessions: tuple[SessionRow, ...]
    before: int | None
    """Give this back to get the next page; none on the last."""


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn and what came of it."""

    turn: int
    status: str
    """open, queued, completed, failed or cancelled."""
    text_in: int | None
    """Sequence of the event that holds its text; none where it had none."""
    reply_in: int | None
    """Sequence of the event that holds the reply, or the replacement of a redacted one."""
    call: str | None
    """The call whose text the reply is."""
    finish: str | None
    cause: str | None
    """Code of a failure, reason of a cancellation."""
    detail: str | None
    excluded: bool
    redacted: bool
    submitted_at: str
    released_at: str | None
    settled_at: str | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One try of a call. What is none is unknown or not over yet, never nothing."""

    turn: int
    attempt: int
    call: str
    worker: str
    started_at: str
    ended_at: str | None
    outcome: str | None
    known: str | None
    """How far the tokens can be trusted: reported, estimated or unknown."""
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    micro_dollars: int | None
    price: str | None
    first_token_ms: int | None
    total_ms: int | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call whose prompt was fixed, with every attempt at it."""

    call: str
    turn: int
    sequence: int
    """Of the event that holds its manifest."""
    at: str
    kind: str
    model: str
    supersedes: str | None
    digest: Digest
    budget: int | None
    tokens: int
    """Of the prompt, by `counter`."""
    counter: str
    parts: int
    profile: str | None
    """The profile it was made by, where the record says so."""
    savings: int
    """Tokens it would have taken more, had nothing of it been shortened."""
    attempt: int | None
    """The one that answered."""
    finish: str | None
    characters: int | None
    attempts: tuple[AttemptRow, ...]

    @property
    def known(self) -> str:
        """How far the figures can be trusted: no further than those of its worst attempt."""
        said = {attempt.known or "unknown" for attempt in self.attempts} or {"unknown"}
        return next(known for known in ("unknown", "estimated", "reported") if known in said)

    @property
    def input_tokens(self) -> int | None:
        """Tokens sent in all attempts, as far as they are known; none when nothing is."""
        return _total(attempt.input_tokens for attempt in self.attempts)

    @property
    def output_tokens(self) -> int | None:
        """Tokens received in all attempts, as far as they are known; none when nothing is."""
        return _total(attempt.output_tokens for attempt in self.attempts)

    @property
    def micro_dollars(self) -> int | None:
        """Millionths of a dollar for all attempts, as far as known; none when nothing is."""
        return _total(attempt.micro_dollars for attempt in self.attempts)


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """What one component took of one call."""

    component: str
    parts: int
    tokens: int
    characters: int
    turns: int
    """Turns of history it held."""
    cut_turns: int
    """Turns of history that were cut to fit."""


@dataclass(frozen=True, slots=True)
class CallGrowth:
    """What one call took, and what made it take less."""

    call: str
    turn: int
    at: str
    kind: str
    model: str
    profile: str | None
    budget: int | None
    tokens: int
    savings: int
    """Tokens that all optimizations saved together."""
    optimizations: dict[str, int]
    """Rules by which the prompt is shorter, each with the tokens it saved."""
    components: tuple[ComponentRow, ...]


@dataclass(frozen=True, slots=True)
class GroupGrowth:
    """What some calls took together."""

    group: str | None
    """What they have in common; none where that is nothing, or not known."""
    calls: int
    tokens: int
    savings: int
    components: dict[str, int]
    """Tokens of each."""
    cut_turns: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is of everything in a tenant."""

    sessions: int
    open_sessions: int
    turns: int
    calls: int
    redactions: int
    micro_dollars: int
    """As far as known."""
    unknown_costs: int
    """Attempts that ended and whose cost nobody knows."""


def _total(figures: Iterable[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None
