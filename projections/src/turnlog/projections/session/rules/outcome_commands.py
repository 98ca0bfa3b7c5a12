"""From the outcome of an attempt to the command that records it.

An attempt ends with an answer, with a reply that a safety rule refuses, with a failure, or from
outside. Each outcome has one command, whatever the worker that saw it does next.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from turnlog.events.content import Digest
from turnlog.events.model.attempt_figures import AttemptCost, AttemptUsage, TokenUsage
from turnlog.events.model.call_events import AttemptFault
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.turn_events import FinishReason
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.schema.lookups.resolver_specs import ReferencesSpec
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL, PhaseGraph
from turnlog.projections.blueprint.schema.policy_specs import CutTurnPolicy
from turnlog.projections.session.commands import (
    AnswerCall,
    AttemptRef,
    CompleteTurn,
    EndAttempt,
    FallBack,
    GiveUpQueries,
    GiveUpSummary,
    RecordSummary,
)
from turnlog.projections.session.next_call import SIDE_STAGES, CallStage
from turnlog.projections.session.open_turn import AnswerRejection, WithheldAnswer
from turnlog.projections.tools.parsed_plan import ParsedPlan

NOTHING_SPENT: Final = AttemptUsage(
    usage=TokenUsage(known="reported", input_tokens=0, output_tokens=0),
    cost=AttemptCost(micro_dollars=0, price="exact", table="none"),
)
"""The cost of an attempt that called no model: known to be nothing."""


OVERDUE_FAULT: Final = AttemptFault(code="deadline", detail="not answered in time", retryable=True)


STOPPED_FAULT: Final = AttemptFault(
    code="handed-back", detail="its worker was stopped", retryable=True
)


ROUNDS_FAULT: Final = AttemptFault(
    code="rounds-exhausted",
    detail="the model called tools beyond the last round, was told, and called them again",
    retryable=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAnswer:
    """A model's whole answer, in the format that its call requires."""

    text: str
    """The text after its repairs."""
    finish: FinishReason
    tools: tuple[ToolRequest, ...] = ()
    argument_faults: Mapping[int, str] = field(default_factory=dict[int, str])
    """What is wrong with the arguments of tools by their schemas, by position from 1."""
    plan: ParsedPlan | None = None
    repairs: tuple[str, ...] = ()
    structured: bool = False
    """Whether the text is JSON that matches the schema of its call."""

    @property
    def continues_turn(self) -> bool:
        """Whether it calls tools, so that the answer to a call of a loop is no reply yet.

        The tool that ends a phase is called with a reply.
        """
        return any(request.tool != TRANSITION_TOOL for request in self.tools)


@dataclass(frozen=True, slots=True)
class AnswerRefused:
    """An answer that breaks a safety rule: it ends its turn, or only its summary."""

    reason: str
    rule: str
    blob: Digest
    """The blob that holds the refused text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """An attempt without an answer."""

    fault: AttemptFault
    retry_in: float | None = None
    """Seconds until the next attempt; None if there is none."""
    allows_fallback: bool = True
    """Whether the turn's fallback may be used as its reply."""
    has_partial: bool = True
    """Whether the published text is recorded."""
    is_from_call: bool = False
    """Whether the call itself failed; a turn that can do without its answer continues."""
    rejection: AnswerRejection | None = None
    """The answer, where it did not have the required form."""


@dataclass(frozen=True, slots=True)
class TurnUnroutable:
    """The resolver found nothing that the turn could be answered from."""


@dataclass(frozen=True, slots=True)
class NothingRetrieved:
    """A retrieval took nothing, and the blueprint has a reply for that."""

    reply: str
    detail: str
    """Why, for people."""


@dataclass(frozen=True, slots=True)
class AttemptReleased:
    """The attempt was ended from outside; the turn is left to the next claim."""

    fault: AttemptFault | None = None


AttemptOutcome = (
    AttemptAnswer
    | AnswerRefused
    | AttemptFailed
    | TurnUnroutable
    | NothingRetrieved
    | AttemptReleased
)


GiveUpCommand = GiveUpSummary | GiveUpQueries

OutcomeCommand = AnswerCall | CompleteTurn | RecordSummary | GiveUpCommand | FallBack | EndAttempt


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """What an attempt was for and what it produced, whatever its outcome."""

    attempt: AttemptRef
    stage: CallStage
    spent: AttemptUsage
    text: str = ""
    """Everything the model wrote."""
    shown_text: str = ""
    """The part of the text that was published."""
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files that it wrote, each in place of a line of the text."""
    reasoning: str = ""
    """What the model reasoned, as it is recorded; empty if nothing of it came."""
    model: str = ""
    fallback: str | None = None
    """The reply if no model answers; None if the turn fails then."""
    work: str | None = None
    """How the turn was worked out, where later prompts show it."""
    offered_tools: Container[str] = ()
    max_tools: int = 0
    has_used_rounds: bool = False
    """Whether the turn has had its rounds of tool calls."""
    approval_seconds: float = 0.0
    """How long a person has to approve a tool."""
    children: frozenset[str] = frozenset()
    """The offered tools that are child profiles."""
    replacement: str = ""
    """What is shown in place of a refused reply."""
    excludes_filtered: bool = False
    """Whether a turn whose answer a filter of the provider cut is excluded from windows."""
    failed_policy: CutTurnPolicy = "keep_partial"
    """What later prompts include of the turn if it fails."""
    phases: PhaseGraph | None = None
    references: ReferencesSpec | None = None

    @property
    def shown_parts(self) -> tuple[MediaPart, ...]:
        """The parts of the text that was published."""
        return tuple(each for each in self.parts if each.at < len(self.shown_text))


def build_outcome_command(report: AttemptReport, outcome: AttemptOutcome) -> OutcomeCommand:
    """Return the command that records the outcome of an attempt."""
    match outcome:
        case AttemptAnswer():
            return _build_answer_command(report, outcome)
        case AnswerRefused(reason=reason, rule=rule) if report.stage in SIDE_STAGES:
            detail = f"the rule {rule} withholds it: {reason}"
            fault = AttemptFault(code="withheld", detail=detail, retryable=False)
            return _build_give_up_command(replace(report, reasoning=""), fault)
        case AnswerRefused(reason=reason, rule=rule, blob=blob):
            return CompleteTurn(
                attempt=report.attempt,
                text=report.text,
                finish="safety",
                spent=report.spent,
                phases=report.phases,
                withheld=WithheldAnswer(reason, rule, report.replacement, blob),
            )
        case AttemptFailed():
            return _build_failure_command(report, outcome)
        case TurnUnroutable():
            why = "the resolver knows no way to answer it"
            return _build_fallback(report, "", "unroutable", why)
        case NothingRetrieved(reply=reply, detail=detail):
            return _build_fallback(report, reply, "nothing-found", detail)
        case AttemptReleased(fault=fault):
            return EndAttempt(
                attempt=report.attempt,
                outcome="cancelled",
                spent=report.spent,
                then="release",
                fault=fault,
                partial=report.shown_text,
                reasoning=report.reasoning,
                parts=report.shown_parts,
            )


def _build_answer_command(
    report: AttemptReport, answer: AttemptAnswer
) -> AnswerCall | CompleteTurn | RecordSummary:
    match report.stage:
        case "summarise":
            return RecordSummary(
                attempt=report.attempt,
                text=report.text,
                finish=answer.finish,
                spent=report.spent,
                model=report.model,
                reasoning=report.reasoning,
            )
        case "query":
            # Tools that it calls are none of its queries, and none were offered.
            return _build_continuation(report, replace(answer, tools=(), argument_faults={}))
        case "plan" | "act":
            return _build_continuation(report, answer)
        case "loop" if answer.continues_turn:
            return _build_continuation(report, answer)
        case "loop" | "reply":
            return CompleteTurn(
                attempt=report.attempt,
                text=answer.text,
                finish=answer.finish,
                spent=report.spent,
                phases=report.phases,
                tools=answer.tools,
                references=report.references,
                raw=report.text if answer.repairs else None,
                repairs=answer.repairs,
                work=report.work,
                excludes_filtered=report.excludes_filtered,
                structured=answer.structured,
                reasoning=report.reasoning,
                parts=report.parts,
                shown=report.shown_text,
            )


def _build_continuation(report: AttemptReport, answer: AttemptAnswer) -> AnswerCall:
    return AnswerCall(
        attempt=report.attempt,
        text=report.text,
        finish=answer.finish,
        spent=report.spent,
        tools=answer.tools,
        argument_faults=answer.argument_faults,
        offered_tools=report.offered_tools,
        max_tools=report.max_tools,
        plan=answer.plan,
        repairs=answer.repairs,
        has_used_rounds=report.has_used_rounds,
        approval_seconds=report.approval_seconds,
        children=report.children,
        reasoning=report.reasoning,
        parts=report.parts,
        shown=report.shown_text,
    )


def _build_give_up_command(report: AttemptReport, fault: AttemptFault) -> GiveUpCommand:
    """Return the command by which a turn continues without the answer of its call."""
    give_up = GiveUpSummary if report.stage == "summarise" else GiveUpQueries
    return give_up(report.attempt, report.spent, fault, report.reasoning)


_UNASKED: Final = frozenset({"model_off", "model-not-allowed", "quota-exceeded"})
"""Codes of attempts that ask no model."""


def _build_failure_command(
    report: AttemptReport, failed: AttemptFailed
) -> EndAttempt | FallBack | GiveUpCommand:
    fault = failed.fault
    if report.stage in SIDE_STAGES and failed.is_from_call:
        return _build_give_up_command(report, fault)
    partial = report.shown_text if failed.has_partial else ""
    reasoning = report.reasoning if failed.has_partial else ""
    parts = report.shown_parts if failed.has_partial else ()
    if failed.retry_in is not None:
        return EndAttempt(
            attempt=report.attempt,
            outcome="failed",
            spent=report.spent,
            then="retry",
            fault=fault,
            partial=partial,
            rejection=failed.rejection,
            reasoning=reasoning,
            parts=parts,
        )
    if failed.allows_fallback and report.fallback is not None:
        model_fault = None if fault.code in _UNASKED else fault
        return _build_fallback(
            report=report,
            text=report.fallback,
            code=fault.code,
            detail=fault.detail,
            fault=model_fault,
            rejection=failed.rejection,
        )
    return EndAttempt(
        attempt=report.attempt,
        outcome="failed",
        spent=report.spent,
        then="fail",
        fault=fault,
        partial=partial,
        failed_policy=report.failed_policy,
        rejection=failed.rejection,
        reasoning=reasoning,
        parts=parts,
    )


def _build_fallback(
    report: AttemptReport,
    text: str,
    code: str,
    detail: str,
    fault: AttemptFault | None = None,
    rejection: AnswerRejection | None = None,
) -> FallBack:
    """Build the command for a reply without a model; without a fault, no model was called."""
    return FallBack(
        attempt=report.attempt,
        text=text,
        spent=report.spent if fault else NOTHING_SPENT,
        code=code,
        detail=detail,
        fault=fault,
        partial=report.shown_text,
        rejection=rejection,
        references=report.references,
        reasoning=report.reasoning if fault else "",
        parts=report.shown_parts,
    )
