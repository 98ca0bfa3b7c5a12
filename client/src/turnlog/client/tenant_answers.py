"""What turns used, as answered."""

from __future__ import annotations

from typing import Literal

from turnlog.client.answers import Answer, CostAnswer

UsageGrouping = Literal["all", "user", "profile", "blueprint", "model", "day", "hour"]
"""What the turns of a group have in common."""


class UsageAnswer(Answer):
    """What the turns of a group used."""

    group: str | None = None
    """What they have in common; None for all turns, and where it is unknown."""
    turns: int
    """Turns that somebody asked for."""
    completed: int
    """Turns that got a reply."""
    failed: int
    """Turns that failed."""
    cancelled: int
    """Turns that were cancelled."""
    open: int
    """Turns that are not over yet."""
    guided: int
    """Turns whose prompts included something that was retrieved."""
    activation_rate: float | None = None
    """Share of the turns that were guided by retrieval; None without a turn."""
    success_rate: float | None = None
    """Share of completed turns among those that completed or failed; None without one."""
    input_tokens: int
    """Tokens sent by all attempts, as far as known."""
    output_tokens: int
    """Tokens received by all attempts, as far as known."""
    total_tokens: int
    """Tokens sent and received."""
    unknown_attempts: int
    """Attempts whose tokens nobody counted."""
    saved_tokens: int
    """Output tokens that guided turns took less than the turn before them in their session."""
    saving_turns: int
    """Guided turns that took less."""
    average_saved_tokens: float | None = None
    """The mean of what a saving turn saved; None without one."""
    saved_cost: CostAnswer
    """What the saved tokens would have cost."""
    cost: CostAnswer
    """What their attempts cost."""


class UsageReportAnswer(Answer):
    """What turns used, as far as the read models have caught up."""

    total: UsageAnswer
    """What all of them used."""
    groups: tuple[UsageAnswer, ...]
    """What each group used, by its name; empty where no grouping is asked for."""
    models: dict[str, int]
    """Turns by the model that was called last in them."""
    profiles: dict[str, int]
    """Turns by their profile."""
