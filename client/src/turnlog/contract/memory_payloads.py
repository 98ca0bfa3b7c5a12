"""The responses about memory: summaries, what an exclusion would undo, and references."""

from __future__ import annotations

from typing import Literal

from turnlog.contract.payload_models import JsonObject, ResponseModel
from turnlog.contract.usage_payloads import CostSum

InheritanceReason = Literal[
    "in-text",
    "inherited",
    "not-remembered",
    "not-enabled",
    "intent-not-listed",
    "entity-not-allowed",
    "no-reference",
    "too-old",
]
"""Why an identifier was or was not inherited; `in-text` means that the turn names its own."""


class TurnRangeView(ResponseModel):
    """A range of consecutive turns."""

    first: int
    """The first turn."""
    last: int
    """The last turn."""


class SummaryView(ResponseModel):
    """A summary that replaces older turns in windows."""

    sequence: int
    """The sequence of its event, by which it is undone."""
    view: str
    """The history view of the blueprint that contains it."""
    turns: tuple[TurnRangeView, ...]
    """The turns it replaces."""
    former: int | None
    """The earlier summary that it includes."""
    phases: tuple[str, ...]
    """The phases of those turns."""
    text: str | None
    """The summary text in prompts; null when it is no longer readable."""
    call: str
    """The call that generated it."""
    inputs: str
    """The digest of the request that it answers."""
    model: str
    """The model as it was passed to litellm."""
    micro_dollars: int | None
    """The cost of the call in millionths of a dollar; null when unknown."""
    guessed: bool
    """Whether that price is a guess, because no table has the very model."""
    at: str
    """When it was recorded, RFC 3339."""


class SummariesView(ResponseModel):
    """The active summaries of a session, oldest first."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    summaries: tuple[SummaryView, ...]
    """The latest summary of each view that was not undone."""
    purged: int
    """The last turn that a purge excluded from windows; 0 without a purge."""


class UncoveredTurns(ResponseModel):
    """Turns of a view that no summary covers any more."""

    view: str
    """The history view of the blueprint."""
    turns: tuple[TurnRangeView, ...]
    """The turns, without the excluded one; the next turn may have a model summarise them again."""


class ExclusionPreviewView(ResponseModel):
    """What excluding a turn would undo; nothing is recorded."""

    session: str
    """The session id."""
    turn: int
    """The turn."""
    sequence: int
    """The sequence that the response reflects."""
    undone: tuple[SummaryView, ...]
    """The summaries that cover the turn and would be undone, the latest first."""
    uncovered: tuple[UncoveredTurns, ...]
    """The turns that windows would show again, by view."""
    cost: CostSum
    """What writing the undone summaries cost, as an estimate for writing them again."""


class ReferencesView(ResponseModel):
    """What the latest answered turn of a session was about."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    last_reference: JsonObject | None
    """Its identifiers, with `intent`, `entity`, `updated_at` and `turn_index`; null before any."""


class ResolvedReferencesView(ResponseModel):
    """The references that a turn would have if it were submitted now."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    identifiers: JsonObject
    """The identifiers that the turn states, then those it would inherit."""
    used: bool
    """Whether any would be inherited."""
    reason: InheritanceReason
    """Why they would be inherited or not."""
