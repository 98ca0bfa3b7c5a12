"""The history of a prompt as it is planned: a summary, then the turns, and the turns left out."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.projections.prompt.history.excluded_turns import ExcludedTurns
from turnlog.projections.prompt.history.repeated_questions import REPEATS_RULES, RepeatsRule
from turnlog.projections.prompt.history.turn_messages import (
    TurnExchange,
    count_latest_turns,
)
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
    """The latest messages in which no repeated question is condensed."""
    verbatim_repeats: bool = True
    """Whether these messages count towards the repetitions of a question."""
    keeps_reasoning: bool = False
    """Whether replies have what the model reasoned before them."""

    @property
    def included_summary(self) -> SummaryMessage | None:
        """The summary, if it is included."""
        return self.summary if self.summary and self.summary.included else None

    def count_older(self, messages: int) -> int:
        """Return how many exchanges are before the latest ones with that many messages."""
        counts = [len(exchange.content.messages) for exchange in self.exchanges]
        return len(counts) - count_latest_turns(counts, messages)

    def has_condensed_older(self, messages: int, tokens: int) -> bool:
        """Return whether a rule has condensed all before the latest messages to so many tokens."""
        older = self.exchanges[: self.count_older(messages)]
        return (
            bool(older)
            and all(exchange.is_repeated for exchange in older)
            and sum(exchange.tokens for exchange in older) <= tokens
        )

    @property
    def reasoning_texts(self) -> tuple[str, ...]:
        """What is sent of the reasoning before replies."""
        if not self.keeps_reasoning:
            return ()
        return tuple([each.reasoning_text for each in self.exchanges if each.reasoning_text])

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of the reasoning before replies."""
        if not self.keeps_reasoning:
            return 0
        return sum([each.reasoning_tokens for each in self.exchanges])

    @property
    def tokens(self) -> int:
        """Tokens of the texts of all messages."""
        summed = self.included_summary.tokens if self.included_summary else 0
        return summed + sum([exchange.tokens for exchange in self.exchanges])

    @property
    def characters(self) -> int:
        """Length of all messages."""
        summed = len(self.included_summary.text) if self.included_summary else 0
        return summed + sum([exchange.content.characters for exchange in self.exchanges])
