"""Verifies one session, and adds up the results of many.

A session is verified in one pass: chain, protocol invariants, blobs, totals, and the reproduction
of every prompt in both ways. The chain shows alteration, the sequence shows gaps, and a head noted
earlier shows a record that was cut or rewritten. Prompts behind a gap are not reproduced, since the
missing events are unknown; they are counted, and the gap is named. Verification repairs nothing and
does not stop at the first finding.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, Literal, TypeVar

from turnlog.events.chain_link import parse_chain_header
from turnlog.events.content import Digest, has_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.tool_events import ToolCalled, ToolReturned, ToolStarted
from turnlog.events.model.turn_events import TURN_END_TYPES, find_turn_end
from turnlog.events.stray_messages import is_stray
from turnlog.projections.audit.record.erasure_reach import is_closed
from turnlog.projections.audit.record.event_queries import filter_by_type, iterate_calls
from turnlog.projections.audit.record.session_replay import (
    BLOB_NAMING_TYPES,
    SessionReplay,
    collect_media_digests,
    list_event_blobs,
)
from turnlog.projections.audit.verify.approval_checks import (
    check_approvals,
    check_approved_arguments,
)
from turnlog.projections.audit.verify.audit_findings import (
    AuditFinding,
    CheckName,
    VerdictName,
    list_failed_promises,
    sort_findings,
)
from turnlog.projections.audit.verify.child_checks import (
    check_children,
    check_parent_inputs,
    collect_child_claims,
    collect_child_turns,
)
from turnlog.projections.audit.verify.erasure_checks import check_erasures, list_source_closures
from turnlog.projections.audit.verify.hash_chain import (
    ChainKey,
    UndecodableEvent,
    WitnessedHead,
    verify_chain,
)
from turnlog.projections.audit.verify.prompt_reproduction import (
    ReproductionResult,
    build_failure,
    reproduce_by_assembly,
    reproduce_by_reference,
)
from turnlog.projections.audit.verify.verdicts import (
    NO_REPRODUCTIONS,
    AuditVerdicts,
    ReproductionCounts,
    build_verdicts,
)
from turnlog.projections.audit.verify.verification_report import (
    SessionTotals,
    VerificationReport,
    compute_totals,
)
from turnlog.projections.prompt.sources.session_material import (
    InstalledExtensions,
    MaterialPins,
    SessionMaterial,
)
from turnlog.projections.session_views.session_history import TurnsByNumber, update_history

_TOOL_TYPES: Final = (ToolCalled, ToolStarted, ToolReturned)


def check_settlements(events: Iterable[RecordedEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each turn that was settled more than once."""
    settled: dict[int, int] = {}
    for recorded in filter_by_type(events, *TURN_END_TYPES):
        end = find_turn_end(recorded.event, settled)
        if end is None:
            continue
        if end.turn in settled:
            detail = f"turn {end.turn} was settled before, by event {settled[end.turn]}"
            yield AuditFinding("integrity", "answers", recorded.sequence, detail)
        settled.setdefault(end.turn, recorded.sequence)


def check_tool_calls(events: Iterable[RecordedEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each tool request that does not return exactly once within its turn."""
    under_way: dict[tuple[str, str], tuple[int, RecordedEvent]] = {}
    over: set[int] = set()
    for recorded in filter_by_type(events, *TURN_END_TYPES, *_TOOL_TYPES):
        match recorded.event:
            case ToolCalled(turn=turn, call=call, id=id, tool=tool):
                if (call, id) in under_way:
                    yield _build_tool_finding(
                        recorded, f"call {call} asked for {tool} as for a tool under way"
                    )
                under_way[call, id] = turn, recorded
            case ToolStarted(call=call, id=id, tool=tool):
                if (call, id) not in under_way:
                    detail = f"{tool} was begun for call {call}, which did not wait for it"
                    yield _build_tool_finding(recorded, detail)
            case ToolReturned(call=call, id=id, tool=tool):
                if under_way.pop((call, id), None) is None:
                    detail = f"{tool} returned to call {call}, which did not wait for it"
                    yield _build_tool_finding(recorded, detail)
            case event:
                if end := find_turn_end(event):
                    over.add(end.turn)
    for (call, _), (turn, recorded) in under_way.items():
        if turn in over:
            yield _build_tool_finding(recorded, f"call {call} asked for a tool that never returned")


def _build_tool_finding(recorded: RecordedEvent, detail: str) -> AuditFinding:
    return AuditFinding("integrity", "tools", recorded.sequence, detail)


@dataclass(frozen=True, slots=True)
class VerificationContext:
    """What verification needs besides the record."""

    installed: InstalledExtensions
    materials: dict[MaterialPins, SessionMaterial] = field(
        default_factory=dict[MaterialPins, SessionMaterial]
    )
    """Material read so far, shared by the sessions that are verified together."""


def verify_prompts(
    events: Sequence[RecordedEvent],
    undecodable: Container[int | None],
    blobs: Mapping[Digest, str],
    context: VerificationContext,
) -> tuple[ReproductionCounts, tuple[AuditFinding, ...]]:
    """Reproduce every prompt before the first gap; `undecodable` are sequences."""
    unbroken_count = _count_unbroken(events)
    replay = SessionReplay(blobs=blobs, installed=context.installed, materials=context.materials)
    turns: TurnsByNumber = {}
    found: list[AuditFinding] = []
    tally = _PromptTally()
    for recorded in events[:unbroken_count]:
        if isinstance(call := recorded.event, ContextAssembled) and is_closed(recorded):
            tally.calls += 1
            tally.erased += 1
        elif isinstance(call, ContextAssembled):
            assembled = _rebuild_prompt(replay, recorded)
            referred = reproduce_by_reference(
                call=call, events=replay.events, turns=turns, blobs=blobs, other=assembled.request
            )
            tally.count_call(referred, assembled)
            found += _find_failures(recorded, call, "reference", referred)
            found += _find_failures(recorded, call, "assembly", assembled)
        else:
            update_history(turns, recorded)
        replay.apply_event(recorded)
    behind = [call.call for _, call in iterate_calls(events[unbroken_count:])]
    return tally.build_counts(behind, _describe_hole(events, unbroken_count, undecodable)), tuple(
        found
    )


def _count_unbroken(events: Sequence[RecordedEvent]) -> int:
    for place, recorded in enumerate(events):
        first, envelope = events[0].envelope, recorded.envelope
        if (envelope.sequence, envelope.subject, envelope.tenant) != (
            place + 1,
            first.subject,
            first.tenant,
        ):
            return place
    return len(events)


def _describe_hole(
    events: Sequence[RecordedEvent], unbroken_count: int, undecodable: Container[int | None]
) -> str:
    """Return what is wrong after the first `unbroken_count` events."""
    due = unbroken_count + 1
    if due in undecodable:
        return f"event {due} cannot be read"
    if unbroken_count < len(events) and events[unbroken_count].sequence > due:
        return f"event {due} is missing"
    return f"the event after event {unbroken_count} does not continue it"


def _rebuild_prompt(replay: SessionReplay, recorded: RecordedEvent) -> ReproductionResult:
    try:
        made = replay.rebuild_inputs(recorded)
    except Exception as error:  # noqa: BLE001 - a record that was altered may hold anything
        return build_failure(error)
    return reproduce_by_assembly(made) if made else ReproductionResult("failed")


def _find_failures(
    recorded: RecordedEvent,
    call: ContextAssembled,
    check: Literal["reference", "assembly"],
    result: ReproductionResult,
) -> Iterator[AuditFinding]:
    if result.outcome == "failed":
        detail = f"call {call.call}: {result.first_difference}: {result.detail}"
        yield AuditFinding("reproduction", check, recorded.sequence, detail)


@dataclass(slots=True, kw_only=True)
class _PromptTally:
    calls: int = 0
    reference: int = 0
    assembly: int = 0
    erased: int = 0
    unreproducible: int = 0
    why: str = ""

    def count_call(self, referred: ReproductionResult, assembled: ReproductionResult) -> None:
        self.calls += 1
        self.reference += referred.outcome == "reproduced"
        self.assembly += assembled.outcome == "reproduced"
        if assembled.outcome == "unreproducible":
            self.unreproducible += 1
            self.why = self.why or assembled.detail

    def build_counts(self, behind: Sequence[str], reason: str) -> ReproductionCounts:
        return ReproductionCounts(
            calls=self.calls + len(behind),
            reference=self.reference,
            assembly=self.assembly,
            unreproducible=self.unreproducible,
            why=self.why,
            erased=self.erased,
            unchecked=len(behind),
            behind=f"{_format_calls(behind)} cannot be reproduced, since {reason}"
            if behind
            else "",
        )


def _format_calls(calls: Sequence[str]) -> str:
    return f"call {calls[0]}" if len(calls) == 1 else f"calls {calls[0]} to {calls[-1]}"


RuleCheck = Callable[[Sequence[RecordedEvent]], Iterator[AuditFinding]]
"""Finds events that break a rule of sessions."""

RULE_CHECKS: Final[Sequence[tuple[CheckName, RuleCheck]]] = (
    ("answers", check_settlements),
    ("tools", check_tool_calls),
    ("tools", check_approvals),
    ("tools", check_approved_arguments),
    ("children", check_children),
    ("children", check_parent_inputs),
    ("erasure", check_erasures),
)


def _run_check(
    name: CheckName, check: RuleCheck, events: Sequence[RecordedEvent]
) -> Iterator[AuditFinding]:
    """Yield what a check finds; events on which it raises are a finding themselves."""
    try:
        yield from check(events)
    except Exception as error:  # noqa: BLE001 - a record that was altered may hold anything
        detail = f"the events cannot be checked: {type(error).__name__}"
        yield AuditFinding("integrity", name, events[-1].sequence, detail)


def verify_session(
    events: Sequence[RecordedEvent],
    blobs: Mapping[Digest, str],
    context: VerificationContext,
    witnessed_head: WitnessedHead | None = None,
    undecodable: Sequence[UndecodableEvent] = (),
) -> VerificationReport:
    """Verify all events of a session, given in stored order, with the blobs they name."""
    links = tuple(verify_chain(events, undecodable, witnessed_head))
    garbled = tuple(_find_undecodable(undecodable))
    link_sequences = {each.sequence for each in links}
    sound = {digest: text for digest, text in blobs.items() if has_digest(text, digest)}
    lost = tuple(_find_lost_blobs(events, blobs, sound))
    unreadable_sequences = {each.sequence for each in (*links, *garbled) if each.check == "log"}
    prompt_counts, unproven = verify_prompts(events, unreadable_sequences, sound, context)
    more = (each for each in garbled if each.sequence not in link_sequences)
    rules = (finding for name, check in RULE_CHECKS for finding in _run_check(name, check, events))
    found = (*links, *more, *rules, *lost, *unproven)
    return VerificationReport(
        head=events[-1].head if events else None,
        events=len(events),
        prompts=prompt_counts,
        totals=compute_totals(events),
        findings=sort_findings(found),
        witnessed=witnessed_head is not None,
        child_claims=collect_child_claims(events),
        child_turns=collect_child_turns(events),
        media=collect_media_digests(events),
        source_closures=list_source_closures(events),
    )


def _find_undecodable(undecodable: Iterable[UndecodableEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each undecodable event with a readable header.

    The chain may repeat it.
    """
    for each in undecodable:
        link = parse_chain_header(each.raw.stored)
        if link and not is_stray(each.raw.subject, each.raw.stored):
            detail = f"it cannot be read: {each.detail}"
            yield AuditFinding("integrity", "log", link.sequence, detail)


def _find_lost_blobs(
    events: Sequence[RecordedEvent], blobs: Container[Digest], sound: Container[Digest]
) -> Iterator[AuditFinding]:
    """Yield a finding at the first event that names a missing or altered blob."""
    reported: set[Digest] = set()
    for recorded in filter_by_type(events, *BLOB_NAMING_TYPES):
        for digest in () if is_closed(recorded) else list_event_blobs(recorded):
            if digest in sound or digest in reported:
                continue
            reported.add(digest)
            if digest in blobs:
                detail = f"it names blob {digest}, whose bytes have changed"
                yield AuditFinding("integrity", "blobs", recorded.sequence, detail)
            else:
                detail = f"it names blob {digest}, which is gone"
                yield AuditFinding("completeness", "blobs", recorded.sequence, detail)


Figures = TypeVar("Figures", ReproductionCounts, SessionTotals)


@dataclass(slots=True, kw_only=True)
class VerificationTally:
    """The results of verifying a whole log, added up session by session."""

    witnessed: bool
    """Whether the log is compared with heads noted earlier."""
    sessions: int = 0
    prompts: ReproductionCounts = NO_REPRODUCTIONS
    totals: SessionTotals = field(default_factory=lambda: SessionTotals(sequence=0))
    elsewhere: bool = False
    """Whether the read models of some session are at another sequence."""
    unsound: set[ChainKey] = field(default_factory=set[ChainKey])
    against: set[VerdictName] = field(default_factory=set[VerdictName])
    findings: int = 0

    def add_finding(self, key: ChainKey | None, finding: AuditFinding) -> None:
        """Count a finding; `key` is None if it concerns a whole stream."""
        self.findings += 1
        if key:
            self.unsound.add(key)
        self.against |= list_failed_promises((finding,))

    def add_report(self, report: VerificationReport) -> None:
        """Add the report of a session; its findings are counted by `add_finding`."""
        self.sessions += 1
        self.prompts = _add_figures(self.prompts, report.prompts)
        self.totals = _add_figures(self.totals, report.totals)
        self.elsewhere |= not report.compared

    @property
    def verdicts(self) -> AuditVerdicts:
        """The verdict on each promise."""
        compared = not self.elsewhere
        return build_verdicts(
            self.against, self.prompts, witnessed=self.witnessed, compared=compared
        )


def _add_figures(one: Figures, other: Figures) -> Figures:
    """Add the figures field by field; of two texts, keep the first non-empty one."""
    added = {
        each.name: getattr(one, each.name) + getattr(other, each.name)
        if isinstance(getattr(one, each.name), int)
        else getattr(one, each.name) or getattr(other, each.name)
        for each in fields(one)
    }
    return type(one)(**added)
