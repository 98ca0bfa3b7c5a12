"""The results of queries: frozen row types, independent of SQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue

from turnlog.events.content import Digest


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session in a list; times are those of its events, RFC 3339 in UTC."""

    session: str
    blueprint: str
    blueprint_version: int
    blueprint_digest: Digest
    profile: str
    attributes: dict[str, JsonValue]
    title: str | None
    """The first turn's text on one line; None if there is none that may be shown."""
    turns: int
    """Number of turns so far, whatever their status."""
    redacted: bool
    """Whether any of its replies was redacted."""
    opened_at: str
    opened_position: int
    closed_at: str | None
    last_sequence: int
    last_at: str
    origin_kind: str | None
    origin_session: str | None
    origin_sequence: int | None


@dataclass(frozen=True, slots=True)
class SessionRowPage:
    """A page of sessions, newest first."""

    sessions: tuple[SessionRow, ...]
    before: int | None
    """Parameter for the next page; None on the last page."""


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn and its result."""

    turn: int
    status: str
    """open, queued, completed, failed or cancelled."""
    text_in: int | None
    """Sequence of the event with its text; None if it had none."""
    reply_in: int | None
    """Sequence of the event with the reply, or with the replacement of a redacted one."""
    call: str | None
    """The call that produced the reply."""
    finish: str | None
    cause: str | None
    """Code of a failure, or reason of a cancellation."""
    detail: str | None
    excluded: bool
    redacted: bool
    submitted_at: str
    released_at: str | None
    settled_at: str | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt at a call; None means unknown or not finished, not zero."""

    turn: int
    attempt: int
    call: str
    worker: str
    started_at: str
    ended_at: str | None
    outcome: str | None
    known: str | None
    """How reliable the token figures are: reported, estimated or unknown."""
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
    """A call with a fixed prompt, and all attempts at it."""

    call: str
    turn: int
    sequence: int
    """Sequence of the event with its manifest."""
    at: str
    kind: str
    model: str
    supersedes: str | None
    digest: Digest
    budget: int | None
    tokens: int
    """Tokens of the prompt, by `counter`."""
    counter: str
    parts: int
    profile: str | None
    """The profile it was made with, if recorded."""
    savings: int
    """Tokens saved by shortening the prompt."""
    attempt: int | None
    """The attempt that answered."""
    finish: str | None
    characters: int | None
    attempts: tuple[AttemptRow, ...]

    @property
    def known(self) -> str:
        """How reliable the figures are: as reliable as those of the worst attempt."""
        said = {attempt.known or "unknown" for attempt in self.attempts} or {"unknown"}
        return next(known for known in ("unknown", "estimated", "reported") if known in said)

    @property
    def input_tokens(self) -> int | None:
        """Known input tokens of all attempts; None if none is known."""
        return _sum_known(attempt.input_tokens for attempt in self.attempts)

    @property
    def output_tokens(self) -> int | None:
        """Known output tokens of all attempts; None if none is known."""
        return _sum_known(attempt.output_tokens for attempt in self.attempts)

    @property
    def micro_dollars(self) -> int | None:
        """Known cost of all attempts in millionths of a dollar; None if none is known."""
        return _sum_known(attempt.micro_dollars for attempt in self.attempts)


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """What one component used in one call."""

    component: str
    parts: int
    tokens: int
    characters: int
    turns: int
    """Number of history turns it included."""
    cut_turns: int
    """Number of history turns that were cut to fit."""


@dataclass(frozen=True, slots=True)
class CallGrowth:
    """What one call used, and what made it shorter."""

    call: str
    turn: int
    at: str
    kind: str
    model: str
    profile: str | None
    budget: int | None
    tokens: int
    savings: int
    """Tokens saved by all optimizations together."""
    optimizations: dict[str, int]
    """Rules that shortened the prompt, each with the tokens it saved."""
    components: tuple[ComponentRow, ...]


@dataclass(frozen=True, slots=True)
class GroupGrowth:
    """What a group of calls used together."""

    group: str | None
    """The common value of the group; None if there is none or it is unknown."""
    calls: int
    tokens: int
    savings: int
    components: dict[str, int]
    """Tokens by component."""
    cut_turns: int


@dataclass(frozen=True, slots=True)
class TenantCounts:
    """How many sessions, turns, calls and redactions a tenant has, and their cost."""

    sessions: int
    open_sessions: int
    turns: int
    calls: int
    redactions: int
    micro_dollars: int
    """The known cost."""
    unknown_costs: int
    """Ended attempts with unknown cost."""


def _sum_known(figures: Iterable[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None
