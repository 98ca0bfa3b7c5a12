"""Explains a turn: what its call contained, from which events, and what it led to.

The explanation is computed from the session's events alone, and loads no more of them than needed.
It does not check that the prompt reads back as it was sent; that takes the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import ConfigDict, with_config

from turnlog.events.content import Content
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import AppliedTrimStep
from turnlog.events.model.redaction_events import RedactedSpan, ReplyRedacted, TextRedacted
from turnlog.events.model.session_events import PhaseEntered
from turnlog.events.model.turn_events import InputFinding
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot, build_call_snapshot
from turnlog.projections.audit.explain.child_turns import (
    ExplainedChild,
    ExplainedParent,
    find_explained_parent,
    list_explained_children,
)
from turnlog.projections.audit.explain.count_provenance import (
    ExplainedFactor,
    ExplainedRefusal,
    explain_factor,
    explain_refusal,
)
from turnlog.projections.audit.explain.part_provenance import (
    EventRef,
    PartProvenance,
    build_event_ref,
    trace_part,
)
from turnlog.projections.audit.explain.retrieval_provenance import (
    UntakenEntry,
    iterate_untaken_entries,
)
from turnlog.projections.audit.explain.turn_effects import (
    TurnCall,
    TurnEffect,
    iterate_effects,
    list_turn_calls,
)
from turnlog.projections.audit.explain.turn_milestones import build_milestones
from turnlog.projections.audit.record.event_queries import iterate_calls
from turnlog.projections.audit.record.partial_log import PartialLog
from turnlog.projections.session.fold.settled_turns import build_unknown_turn
from turnlog.projections.session_views.session_history import HistoryTurn, TurnStatus, build_history


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStanding:
    """The phase of a session when a call was made."""

    phase: str
    since: EventRef
    """The event that entered the phase."""
    signal: str | None
    """The signal that caused the change of phase."""
    exchanges: int
    """Number of turns completed in the phase before the call."""
    shared: tuple[str, ...] = ()
    """Phases whose turns this phase may see, where phases are kept apart."""
    hidden: tuple[str, ...] = ()
    """Earlier phases of the session that this phase may not see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldReply:
    """A withheld reply and the event that withheld it."""

    by: EventRef
    rule: str
    reason: str
    replacement: Content
    kept: bool
    """Whether the withheld text is kept as a blob, which only the audit role can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldSubmission:
    """A withheld text of a person, or part of it, and the event that withheld it."""

    by: EventRef
    rule: str
    reason: str
    spans: tuple[RedactedSpan, ...]
    """The parts that were replaced, of the text that stood before; empty if all of it was."""


@with_config(ConfigDict(defer_build=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnExplanation:
    """Everything there is to explain about one turn's reply."""

    session: str
    turn: int
    status: TurnStatus
    said: Content | None
    """The text of the submitted turn; None if the turn started by itself."""
    asked: EventRef
    """The event that submitted the turn."""
    started: EventRef | None
    """The event that entered a phase and so started the turn by itself, if one did."""
    call: str
    """The call that gave the reply, or else the last one made."""
    calls: tuple[TurnCall, ...]
    """All calls of the turn, in order; the reader sees only the reply of the last one."""
    superseded: tuple[str, ...]
    """Calls of the turn that this call replaced."""
    fixed: EventRef
    """The event that fixed the prompt."""
    standing: PhaseStanding | None
    """None if the session has no phases."""
    parts: tuple[PartProvenance, ...]
    """In prompt order, including the parts that were left out."""
    steps: tuple[AppliedTrimStep, ...]
    """The ladder steps that made the prompt fit, in order."""
    budget: int | None
    """The token budget of the prompt."""
    tokens: int
    """The number of tokens in the prompt."""
    reply: Content | None
    """The reply, or its replacement."""
    finish: str | None
    withheld: WithheldReply | None
    consequences: tuple[TurnEffect, ...]
    children: tuple[ExplainedChild, ...] = ()
    """The turns of child sessions that the turn asked for, where its program is `coordinator`."""
    parent: ExplainedParent | None = None
    """The turn that asked for this one, in a coordinator's child session."""
    untaken: tuple[UntakenEntry, ...] = ()
    """What its retrievals found and did not take, with the reason."""
    counted: ExplainedFactor | None = None
    """How the provider's counts correct those of the prompt; None if they do not."""
    refused: ExplainedRefusal | None = None
    """Why the budget is smaller than the blueprint's; None if it is not."""
    findings: tuple[InputFinding, ...] = ()
    """What the rules of `input_safety` masked or noted when it was submitted."""
    withheld_texts: tuple[WithheldSubmission, ...] = ()
    """The redactions of its text, in their order; `said` is what stands."""


def explain_turn(
    log: PartialLog, turn: int, library: Iterable[RecordedEvent] = ()
) -> TurnExplanation:
    """Explain a turn; raise `Refused` if there is no such turn or no prompt was made for it."""
    milestones = _find_turn(log, turn)
    _, call = _select_call(log, milestones)
    return _build_explanation(milestones, build_call_snapshot(log, call.call, library))


def explain_call(
    log: PartialLog, call: str, library: Iterable[RecordedEvent] = ()
) -> TurnExplanation:
    """Explain one call of a turn, answered or not; refuse a call that was never made."""
    side = build_call_snapshot(log, call, library)
    return _build_explanation(_find_turn(log, side.call.turn), side)


def _find_turn(log: PartialLog, turn: int) -> HistoryTurn:
    """Return a turn with everything that happened to it."""
    submitted = 0 if log.is_complete else log.get_state().submitted
    if build_milestones(log, submitted).get(turn) is None:
        raise build_unknown_turn(turn)
    return next(each for each in build_history(log.events) if each.turn == turn)


def _build_explanation(turn: HistoryTurn, side: CallSnapshot) -> TurnExplanation:
    manifest, record = side.manifest, side.log
    return TurnExplanation(
        session=side.recorded.session,
        turn=turn.turn,
        status=turn.status,
        said=turn.text,
        asked=build_event_ref(side.milestones.begun),
        started=_find_starting_event(record, turn),
        call=side.call.call,
        calls=list_turn_calls(record, turn.turn),
        superseded=_list_superseded(record, side.call),
        fixed=build_event_ref(side.recorded),
        standing=_describe_phase(side),
        parts=tuple(trace_part(part, side) for part in manifest.parts),
        steps=manifest.steps,
        budget=manifest.budget,
        tokens=manifest.tokens,
        reply=turn.reply,
        finish=turn.finish,
        withheld=_find_withheld_reply(record, turn.turn),
        consequences=tuple(iterate_effects(record, turn.turn)),
        children=list_explained_children(record, turn.turn),
        parent=find_explained_parent(side),
        untaken=tuple(iterate_untaken_entries(side)),
        counted=explain_factor(side),
        refused=explain_refusal(side),
        findings=turn.findings,
        withheld_texts=tuple(_iterate_withheld_texts(record, turn.turn)),
    )


def _list_calls(log: PartialLog, turn: int) -> list[tuple[RecordedEvent, ContextAssembled]]:
    return [(each, call) for each, call in iterate_calls(log.events) if call.turn == turn]


def _select_call(log: PartialLog, turn: HistoryTurn) -> tuple[RecordedEvent, ContextAssembled]:
    made = _list_calls(log, turn.turn)
    if not made:
        reason = ": ".join(filter(None, (turn.reason, turn.detail)))
        detail = f"turn {turn.turn} is {turn.status}, and no prompt was made for it"
        detail += f" ({reason})" if reason else ""
        raise Refused("unknown-call", detail, field="turn", fix="name a turn with a call")
    answered = [pair for pair in made if pair[1].call == turn.call]
    return (answered or made)[-1]


def _list_superseded(log: PartialLog, call: ContextAssembled) -> tuple[str, ...]:
    """Return the calls that this one replaced, the first of them first."""
    stood_for = {made.call: made.supersedes for _, made in _list_calls(log, call.turn)}
    found: list[str] = []
    before = call.supersedes
    while before is not None and before not in found:
        found.insert(0, before)
        before = stood_for.get(before)
    return tuple(found)


def _find_starting_event(log: PartialLog, turn: HistoryTurn) -> EventRef | None:
    before = log.find_event(turn.sequence - 1) if turn.text is None else None
    return build_event_ref(before) if before and isinstance(before.event, PhaseEntered) else None


def _describe_phase(side: CallSnapshot) -> PhaseStanding | None:
    recorded = side.phase_event
    if recorded is None or not isinstance(recorded.event, PhaseEntered):
        return None
    entered = recorded.event
    return PhaseStanding(
        phase=entered.phase,
        since=build_event_ref(recorded),
        signal=entered.signal,
        exchanges=side.state.exchanges,
        shared=entered.shared,
        hidden=entered.hidden,
    )


def _find_withheld_reply(log: PartialLog, turn: int) -> WithheldReply | None:
    for recorded in log.events:
        match recorded.event:
            case ReplyRedacted() as event if event.turn == turn:
                kept = event.withheld is not None
                by = build_event_ref(recorded)
                return WithheldReply(
                    by=by,
                    rule=event.rule,
                    reason=event.reason,
                    replacement=event.replacement,
                    kept=kept,
                )
            case _:
                pass
    return None


def _iterate_withheld_texts(log: PartialLog, turn: int) -> Iterator[WithheldSubmission]:
    for recorded in log.events:
        event = recorded.event
        if isinstance(event, TextRedacted) and event.turn == turn:
            by = build_event_ref(recorded)
            yield WithheldSubmission(by=by, rule=event.rule, reason=event.reason, spans=event.spans)
