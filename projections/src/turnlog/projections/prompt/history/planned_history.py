"""The history of a prompt as it is planned: a summary, then the turns, and the turns left out."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.projections.prompt.history.excluded_turns import ExcludedTurns
from turnlog.projections.prompt.history.repeated_questions import REPEATS_RULES, RepeatsRule
from turnlog.projections.prompt.history.turn_messages import TurnExchange
from turnlog.projections.session.text_refs import TextRef


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryMessage:
    """The summary of older turns, as the message before the turns of its view."""

    text_ref: TextRef
    text: str
    tokens: int
    included: bool = True
    saved: int = 0
    """About how many tokens more the summarised turns would take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHistory:
    """The messages of a history view, oldest first, and the turns that are excluded."""

    view: str
    exchanges: tuple[TurnExchange, ...]
    left_out: tuple[ExcludedTurns, ...]
    shows_work: bool = False
    """Whether they also show how each turn was worked out."""
    summary: SummaryMessage | None = None
    """The summary that replaces older turns."""
    repeats: RepeatsRule = REPEATS_RULES["repeats-2"]
    """The rule by which repeated questions are condensed."""
    verbatim_messages: int = 0
    """The latest messages that are never condensed."""

    @property
    def included_summary(self) -> SummaryMessage | None:
        """The summary, if it is included."""
        return self.summary if self.summary and self.summary.included else None

    @property
    def tokens(self) -> int:
        """Tokens of all messages."""
        summed = self.included_summary.tokens if self.included_summary else 0
        return summed + sum([exchange.tokens for exchange in self.exchanges])

    @property
    def characters(self) -> int:
        """Length of all messages."""
        summed = len(self.included_summary.text) if self.included_summary else 0
        return summed + sum([exchange.content.characters for exchange in self.exchanges])
