"""Responses about what turns used."""

from __future__ import annotations

from turnlog.contract.payload_models import ResponseModel
from turnlog.projections.read_models.call_costs import CostSum
from turnlog.projections.store.read.row_types import UsageFigures


class UsageView(ResponseModel):
    """What the turns of a group used."""

    group: str | None
    """What they have in common; null for all turns, and where it is unknown."""
    turns: int
    """Turns that somebody asked for; a fork's copies count in its origin."""
    completed: int
    """Turns that got a reply."""
    failed: int
    """Turns that failed."""
    cancelled: int
    """Turns that were cancelled."""
    open: int
    """Turns that are not over yet: they run, wait for somebody, or are queued."""
    guided: int
    """Turns whose prompts included something that was retrieved."""
    activation_rate: float | None
    """Share of the turns that were guided by retrieval; null without a turn."""
    success_rate: float | None
    """Share of the turns that ended with a reply or a failure which got a reply; null without one.
    """
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
    average_saved_tokens: float | None
    """The mean of what a saving turn saved; null without one."""
    saved_cost: CostSum
    """What the saved tokens would have cost, by today's price of an output token of each model."""
    cost: CostSum
    """What their attempts cost."""


def create_usage(group: str | None, used: UsageFigures, saved_cost: CostSum) -> UsageView:
    """Return what a group used as responses have it."""
    ended = used.completed + used.failed
    return UsageView(
        group=group,
        turns=used.turns,
        completed=used.completed,
        failed=used.failed,
        cancelled=used.cancelled,
        open=used.turns - ended - used.cancelled,
        guided=used.guided,
        activation_rate=used.guided / used.turns if used.turns else None,
        success_rate=used.completed / ended if ended else None,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.input_tokens + used.output_tokens,
        unknown_attempts=used.unknown_attempts,
        saved_tokens=used.saved_tokens,
        saving_turns=used.saving_turns,
        average_saved_tokens=used.saved_tokens / used.saving_turns if used.saving_turns else None,
        saved_cost=saved_cost,
        cost=used.cost,
    )


class UsageReport(ResponseModel):
    """What turns used, as far as the read models have caught up."""

    total: UsageView
    """What all of them used."""
    groups: tuple[UsageView, ...]
    """What each group used, by its name; empty where no grouping is asked for."""
    models: dict[str, int]
    """Turns by the model that was called last in them."""
    profiles: dict[str, int]
    """Turns by their profile."""
