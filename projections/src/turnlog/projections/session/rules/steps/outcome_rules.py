"""Rules for what stays of the tools of a turn whose reply does not mention them.

A turn may fail, be cancelled, or have its reply withheld or replaced after a tool took effect. The
event that ends such a turn names every tool that ran with its outcome, and the results that later
prompts include.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import TurnCancelled, TurnFailed
from turnlog.events.registry import KnownEvent
from turnlog.projections.session.open_turn import OpenTurn
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.rules.steps.tool_rules import end_open_work
from turnlog.projections.session.tool_uses import RAN_OUTCOMES, ReturnedTool, ToolUse
from turnlog.projections.tools.result_condensation import format_tool_outcomes

CancelReason = Literal["cancelled", "interrupted", "closed", "phase-left"]

FAILED_HEADING: Final = "This turn failed before it was answered. Tools that ran:"
"""Later prompts include the headings, so they never change."""

CANCELLED_HEADING: Final = "This turn was cancelled before it was answered. Tools that ran:"

REPLACED_HEADING: Final = "Tools that ran:"


@dataclass(frozen=True, slots=True)
class TurnOutcomes:
    """The tools of a turn that ran, for the event that ends the turn."""

    text: str = ""
    """Each of them with its outcome; empty if none ran."""
    results: tuple[int, ...] = ()
    """Sequences of their results."""


NO_OUTCOMES: Final = TurnOutcomes()


def find_turn_outcomes(
    opened: OpenTurn | None, heading: str, settled: Iterable[KnownEvent] = ()
) -> TurnOutcomes:
    """Return the tools that ran; `settled` are events of the same batch that end some of them."""
    if opened is None or not opened.tools:
        return NO_OUTCOMES
    ended = {
        (each.call, each.id): each.outcome for each in settled if isinstance(each, ToolReturned)
    }
    ran = [
        (use, outcome)
        for use in opened.tools
        if (outcome := ended.get((use.call, use.id)) or _get_outcome(use)) in RAN_OUTCOMES
    ]
    named = [(use.tool, f"{use.call}/{use.id}", outcome) for use, outcome in ran if outcome]
    results = tuple([use.result.said.sequence for use, _ in ran if use.result])
    return TurnOutcomes(format_tool_outcomes(heading, named), results) if named else NO_OUTCOMES


def _get_outcome(use: ToolUse) -> str | None:
    return use.progress.outcome if isinstance(use.progress, ReturnedTool) else None


def fail_open_turn(
    opened: OpenTurn, settled: NewEvents, code: str, detail: str, *, retryable: bool = True
) -> NewEvents:
    """Fail a turn after the events that end its attempt and its tools."""
    left = find_turn_outcomes(opened, FAILED_HEADING, settled)
    failed = TurnFailed(
        turn=opened.turn,
        code=code,
        detail=detail,
        retryable=retryable,
        outcomes=left.text,
        kept_results=left.results,
    )
    return (*settled, failed)


def cancel_open_turn(opened: OpenTurn, reason: CancelReason) -> NewEvents:
    """End the attempt and the tools of a turn, and cancel it."""
    settled = end_open_work(opened)
    left = find_turn_outcomes(opened, CANCELLED_HEADING, settled)
    cancelled = TurnCancelled(
        turn=opened.turn, reason=reason, outcomes=left.text, kept_results=left.results
    )
    return (*settled, cancelled)
