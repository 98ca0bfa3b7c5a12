"""Rules for what stays of a turn that ends without its reply, or whose reply is not its model's.

A turn may fail, be cancelled, or have its reply withheld or replaced after a tool took effect. The
event that ends such a turn names every tool that ran with its outcome, and the results that later
prompts include. Where its blueprint's policy keeps them, later prompts also include what the user
wrote and what was shown of the reply, with a line that says that it was cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from turnlog.events.content import PlainText
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import TurnCancelled, TurnFailed
from turnlog.events.registry import KnownEvent
from turnlog.projections.session.open_turn import NOTHING_KEPT, CutReply, OpenTurn
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.rules.steps.tool_rules import end_open_work
from turnlog.projections.session.tool_uses import RAN_OUTCOMES, ReturnedTool, ToolUse
from turnlog.projections.tools.result_condensation import format_tool_outcomes

CancelReason = Literal["cancelled", "interrupted", "closed", "phase-left"]

FAILED_HEADING: Final = "This turn failed before it was answered. Tools that ran:"
"""Later prompts include the headings, so they never change."""

CANCELLED_HEADING: Final = "This turn was cancelled before it was answered. Tools that ran:"

REPLACED_HEADING: Final = "Tools that ran:"

STOPPED_REPLY_LINE: Final = "(This reply was stopped here.)"
"""Later prompts include these lines too."""

STOPPED_TURN_LINE: Final = "(This turn was stopped before it was answered.)"

BROKEN_REPLY_LINE: Final = "(This reply broke off here.)"

FAILED_TURN_LINE: Final = "(This turn failed before it was answered.)"

REPEATED_FAILURES: Final = frozenset({"content_filtered", "context_overflow", "over-budget"})
"""Codes of failures that later prompts would have too if they included what was written in the
turn: a filter of the provider refused it, or it was too long.
"""


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


@dataclass(frozen=True, slots=True)
class KeptReply:
    """What later prompts include as the reply of a turn that was cut."""

    text: PlainText | None = None
    """None if they leave out what was said in the turn."""
    shown: int = 0
    """How many code points of the text were shown."""


def _build_kept_reply(
    *, opened: OpenTurn, cut: CutReply, reply_line: str, turn_line: str, has_outcomes: bool
) -> KeptReply:
    """Return what was shown and a line that it was cut, or a line in place of the reply.

    The outcomes of tools say in their heading that the turn was not answered. Without them, the
    line keeps the roles of messages alternating.
    """
    if cut.policy == "drop":
        return KeptReply()
    if cut.policy == "keep_partial" and cut.shown.strip():
        return KeptReply(PlainText(text=f"{cut.shown}\n\n{reply_line}"), len(cut.shown))
    text, media = opened.submission.text, opened.submission.media
    has_question = bool(media) or (text is not None and text.characters > 0)
    if has_outcomes or not has_question:
        return KeptReply()
    return KeptReply(PlainText(text=turn_line))


def fail_open_turn(
    *,
    opened: OpenTurn,
    settled: NewEvents,
    code: str,
    detail: str,
    cut: CutReply,
    retryable: bool = True,
) -> NewEvents:
    """Fail a turn after the events that end its attempt and its tools."""
    left = find_turn_outcomes(opened, FAILED_HEADING, settled)
    kept = _build_kept_reply(
        opened=opened,
        cut=NOTHING_KEPT if code in REPEATED_FAILURES else cut,
        reply_line=BROKEN_REPLY_LINE,
        turn_line=FAILED_TURN_LINE,
        has_outcomes=bool(left.text),
    )
    failed = TurnFailed(
        turn=opened.turn,
        code=code,
        detail=detail,
        retryable=retryable,
        outcomes=left.text,
        kept_results=left.results,
        cut_reply=kept.text,
        shown=kept.shown,
    )
    return (*settled, failed)


def cancel_open_turn(
    opened: OpenTurn, reason: CancelReason, cut: CutReply = NOTHING_KEPT
) -> NewEvents:
    """End the attempt and the tools of a turn, and cancel it."""
    settled = end_open_work(opened, cut.shown)
    left = find_turn_outcomes(opened, CANCELLED_HEADING, settled)
    kept = _build_kept_reply(
        opened=opened,
        cut=cut,
        reply_line=STOPPED_REPLY_LINE,
        turn_line=STOPPED_TURN_LINE,
        has_outcomes=bool(left.text),
    )
    cancelled = TurnCancelled(
        turn=opened.turn,
        reason=reason,
        outcomes=left.text,
        kept_results=left.results,
        cut_reply=kept.text,
        shown=kept.shown,
    )
    return (*settled, cancelled)
