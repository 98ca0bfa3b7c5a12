"""What is answered about growth: what each component takes of calls, and what was saved of them."""

from __future__ import annotations

from turnlog.services.gateway.payloads.closed import Answer


class CallMetrics(Answer):
    """What one call took, and what made it take less."""

    call: str
    """Its id: `3.1` is turn 3, call 1."""
    turn_id: int
    """Its turn."""
    at: str
    """When its prompt was fixed."""
    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    """The model."""
    profile: str | None
    """The profile it was made by."""
    budget: int | None
    """Tokens it was allowed; null where nothing is ever cut."""
    tokens: int
    """Of the prompt, tools included, as counted when it was made."""
    components: dict[str, int]
    """Tokens by component: `history_tokens`. Those that every prompt may have are always there."""
    optimizations_applied: tuple[str, ...]
    """The rules by which it is shorter."""
    savings_estimate: int
    """Tokens saved by all of them. What is not known, as of turns that were summed up, is none."""
    saved: dict[str, int]
    """The same rule by rule."""
    cut_turns: int
    """Turns of history that were cut to fit."""


class GroupMetrics(Answer):
    """What some calls took together."""

    group: str | None
    """What they have in common; null where nothing was asked for, or nobody knows."""
    calls: int
    """How many."""
    tokens: int
    """Of their prompts."""
    components: dict[str, int]
    """Tokens by component."""
    savings_estimate: int
    """Tokens that were saved."""
    cut_turns: int
    """Turns of history that were cut to fit."""


class GrowthView(Answer):
    """How context grows, as far as the read models have come."""

    session: str | None
    """The session; null for all of them."""
    sequence: int | None
    """Of a session: up to which event."""
    groups: tuple[GroupMetrics, ...]
    """Calls put together."""
    calls: tuple[CallMetrics, ...]
    """Of a session: call by call."""
    history_growth: float | None
    """Of a session: tokens of history by which one turn has more than the turn before, on average;
    null before there are two turns."""
