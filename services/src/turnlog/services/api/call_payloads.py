"""The responses about calls: attempts, usage and cost, tool results and token growth.

A null figure is unknown, not zero.
"""

from __future__ import annotations

from typing import Literal

from turnlog.contract.payload_models import ResponseModel
from turnlog.events.content import Digest
from turnlog.projections.read_models.call_costs import CostSum
from turnlog.projections.store.read.row_types import CallRow, SessionUsage, TurnUsage


class CallList(ResponseModel):
    """All calls of a session."""

    models: tuple[str, ...] = ()
    """The distinct models, in the order of their first call."""
    profiles: tuple[str, ...] = ()
    """The distinct profiles of the calls."""

    session: str
    """The session id."""
    sequence: int
    """The last sequence that the read models contain."""
    calls: tuple[CallRow, ...]
    """The calls in order."""
    usage: SessionUsage = SessionUsage()
    """What the attempts of the session took and cost."""
    turns: tuple[TurnUsage, ...] = ()
    """What the turns took that asked children, and what these took for them."""


class ToolResultView(ResponseModel):
    """The whole result of a tool use, and what prompts say of it."""

    session: str
    """The session id."""
    sequence: int
    """The sequence of the event that recorded the outcome."""
    call: str
    """The call that requested the tool."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The name of the tool."""
    arguments: str
    """The arguments as the model wrote them."""
    outcome: str | None
    """The outcome; null until the tool returns."""
    detail: str
    """Why it was refused, failed or was lost."""
    text: str | None
    """The text that prompts contain."""
    treatment: Literal["kept", "condensed"]
    """Whether prompts contain all of the result."""
    digest: Digest | None
    """The digest of the whole result; null when there is none."""
    characters: int
    """The length of the whole result."""
    result: str | None
    """The whole result, which has that digest."""


class CallMetrics(ResponseModel):
    """The tokens of one call, and what reduced them."""

    call: str
    """The call id: `3.1` is turn 3, call 1."""
    turn_id: int
    """The turn number."""
    at: str
    """When the prompt was recorded."""
    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    """The model."""
    profile: str | None
    """The profile of the call."""
    budget: int | None
    """The token budget; null without a limit."""
    tokens: int
    """The tokens of the prompt, tools included, as counted when it was assembled."""
    components: dict[str, int]
    """The tokens by component, such as `history_tokens`; the standard components are always
    present.
    """
    optimizations_applied: tuple[str, ...]
    """The rules that shortened the prompt."""
    savings_estimate: int
    """Tokens saved by all rules; estimated from lengths for texts that were not read."""
    saved: dict[str, int]
    """Tokens saved by each rule."""
    cut_turns: int
    """The number of history turns that were cut to fit."""


class GroupMetrics(ResponseModel):
    """The totals of a group of calls."""

    group: str | None
    """The value that the calls have in common; null without grouping, or when it is unknown."""
    calls: int
    """The number of calls."""
    tokens: int
    """The tokens of their prompts."""
    components: dict[str, int]
    """The tokens by component."""
    savings_estimate: int
    """Tokens that were saved."""
    cut_turns: int
    """The number of history turns that were cut to fit."""
    cost: CostSum
    """What their attempts cost; those that a fork copied count in the session that made them."""
    retrieval_hit_rate: float | None
    """The share of the calls with a layer of the component `rag_context` that include a text of it;
    null if there is no such call.
    """


class GrowthView(ResponseModel):
    """How the context of calls grows, as far as the read models have caught up."""

    session: str | None
    """The session id; null for all sessions."""
    sequence: int | None
    """The last sequence of the session that the read models contain."""
    groups: tuple[GroupMetrics, ...]
    """The totals of each group."""
    calls: tuple[CallMetrics, ...]
    """The calls of the session, in order."""
    history_growth: float | None
    """The mean increase of the session's history tokens from one turn to the next; null before
    there are two turns.
    """
