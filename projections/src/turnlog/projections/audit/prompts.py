"""Verifies one session, and adds up the results of many.

A session is verified in one pass: chain, protocol invariants, blobs, totals, and the reproduction
of every prompt in both ways. The chain shows alteration, the sequence shows gaps, and a head noted
earlier shows a record that was cut or rewritten. Prompts behind a gap are not reproduced, since the
missing events are unknown; they are counted, and the gap is named. Verification repairs nothing and
does not stop at the first finding.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.projections.audit.calls import iterate_calls
from turnlog.projections.audit.findings import AuditFinding
from turnlog.projections.audit.report import ReproductionCounts
from turnlog.projections.audit.reproduction import ReproductionResult, reproduce_by_assembly, reproduce_by_reference, build_failure
from turnlog.projections.audit.retelling import SessionReplay
from turnlog.projections.history import TurnsByNumber, update_history
from turnlog.projections.window.material import SessionMaterial
from turnlog.projections.window.pinned import InstalledExtensions, MaterialPins


@dataclass(frozen=True, slots=True)
class VerificationContext:
    """What verification needs besides the record."""

    installed: InstalledExtensions
    materials: dict[MaterialPins, SessionMaterial] = field(default_factory=dict[MaterialPins, SessionMaterial])
    """Material read so far, shared by the sessions that are verified together."""


def verify_prompts(
    events: Sequence[RecordedEvent],
    undecodable: Container[int | None],
    blobs: Mapping[Digest, str],
    context: VerificationContext,
) -> tuple[ReproductionCounts, tuple[AuditFinding, ...]]:
    """Reproduce every prompt before the first gap; `undecodable` are sequences."""
    whole = _count_unbroken(events)
    telling = SessionReplay(blobs, context.installed, materials=context.materials)
    turns: TurnsByNumber = {}
    found: list[AuditFinding] = []
    tally = _PromptTally()
    for recorded in events[:whole]:
        if isinstance(call := recorded.event, ContextAssembled):
            assembled = _rebuild_prompt(telling, recorded)
            referred = reproduce_by_reference(call, telling.events, turns, blobs, assembled.request)
            tally.count_call(referred, assembled)
            found += _find_failures(recorded, call, "reference", referred)
            found += _find_failures(recorded, call, "assembly", assembled)
        else:
            update_history(turns, recorded)
        telling.apply_event(recorded)
    behind = [call.call for _, call in iterate_calls(events[whole:])]
    return tally.build_counts(behind, _describe_hole(events, whole, undecodable)), tuple(found)


def _count_unbroken(events: Sequence[RecordedEvent]) -> int:
    for place, recorded in enumerate(events):
        first, here = events[0].envelope, recorded.envelope
        if (here.sequence, here.subject, here.tenant) != (place + 1, first.subject, first.tenant):
            return place
    return len(events)


def _describe_hole(events: Sequence[RecordedEvent], whole: int, undecodable: Container[int | None]) -> str:
    """Return what is wrong after the first `whole` events."""
    due = whole + 1
    if due in undecodable:
        return f"event {due} cannot be read"
    if whole < len(events) and events[whole].sequence > due:
        return f"event {due} is missing"
    return f"what stands behind event {whole} does not belong there"


def _rebuild_prompt(replay: SessionReplay, recorded: RecordedEvent) -> ReproductionResult:
    try:
        made = replay.rebuild_inputs(recorded)
    except Exception as error:  # noqa: BLE001 - a record that was altered may hold anything
        return build_failure(error)
    return reproduce_by_assembly(made) if made else ReproductionResult("failed")


def _find_failures(
    recorded: RecordedEvent, call: ContextAssembled, check: Literal["reference", "assembly"], result: ReproductionResult
) -> Iterator[AuditFinding]:
    if result.outcome == "failed":
        detail = f"call {call.call}: {result.first_difference}: {result.detail}"
        yield AuditFinding("reproduction", check, recorded.sequence, detail)


@dataclass(slots=True)
class _PromptTally:
    calls: int = 0
    reference: int = 0
    assembly: int = 0
    unreproducible: int = 0
    why: str = ""

    def count_call(self, referred: ReproductionResult, assembled: ReproductionResult) -> None:
        self.calls += 1
        self.reference += referred.outcome == "reproduced"
        self.assembly += assembled.outcome == "reproduced"
        if assembled.outcome == "unreproducible":
            self.unreproducible += 1
            self.why = self.why or assembled.detail

    def build_counts(self, behind: Sequence[str], hole: str) -> ReproductionCounts:
        return ReproductionCounts(
            self.calls + len(behind),
            self.reference,
            self.assembly,
            self.unreproducible,
            self.why,
            len(behind),
            f"{_format_calls(behind)} cannot be had again, since {hole}" if behind else "",
        )


def _format_calls(calls: Sequence[str]) -> str:
    return f"call {calls[0]}" if len(calls) == 1 else f"calls {calls[0]} to {calls[-1]}"
