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
from turnlog.events.envelope import Recorded
from turnlog.projections.audit.calls import calls_in
from turnlog.projections.audit.findings import Finding
from turnlog.projections.audit.report import Reproduced
from turnlog.projections.audit.reproduction import Way, by_assembly, by_reference, failed
from turnlog.projections.audit.retelling import Retelling
from turnlog.projections.history import Turns, learn
from turnlog.projections.window.material import Material
from turnlog.projections.window.pinned import Installed, Pins


@dataclass(frozen=True, slots=True)
class Means:
    """What verification needs besides the record."""

    installed: Installed
    materials: dict[Pins, Material] = field(default_factory=dict[Pins, Material])
    """Material read so far, shared by the sessions that are verified together."""


def prompts(
    events: Sequence[Recorded],
    unread: Container[int | None],
    blobs: Mapping[Digest, str],
    means: Means,
) -> tuple[Reproduced, tuple[Finding, ...]]:
    """Reproduce every prompt before the first gap; `undecodable` are sequences."""
    whole = _unbroken(events)
    telling = Retelling(blobs, means.installed, materials=means.materials)
    turns: Turns = {}
    found: list[Finding] = []
    tally = _Tally()
    for recorded in events[:whole]:
        if isinstance(call := recorded.event, ContextAssembled):
            assembled = _assembled(telling, recorded)
            referred = by_reference(call, telling.known, turns, blobs, assembled.request)
            tally.take(referred, assembled)
            found += _unproven(recorded, call, "reference", referred)
            found += _unproven(recorded, call, "assembly", assembled)
        else:
            learn(turns, recorded)
        telling.told(recorded)
    behind = [call.call for _, call in calls_in(events[whole:])]
    return tally.reproduced(behind, _hole(events, whole, unread)), tuple(found)


def _unbroken(events: Sequence[Recorded]) -> int:
    for place, recorded in enumerate(events):
        first, here = events[0].envelope, recorded.envelope
        if (here.sequence, here.subject, here.tenant) != (place + 1, first.subject, first.tenant):
            return place
    return len(events)


def _hole(events: Sequence[Recorded], whole: int, unread: Container[int | None]) -> str:
    """Return what is wrong after the first `whole` events."""
    due = whole + 1
    if due in unread:
        return f"event {due} cannot be read"
    if whole < len(events) and events[whole].sequence > due:
        return f"event {due} is missing"
    return f"what stands behind event {whole} does not belong there"


def _assembled(telling: Retelling, recorded: Recorded) -> Way:
    try:
        made = telling.made(recorded)
    except Exception as error:  # noqa: BLE001 - a record that was altered may hold anything
        return failed(error)
    return by_assembly(made) if made else Way("failed")


def _unproven(
    recorded: Recorded, call: ContextAssembled, check: Literal["reference", "assembly"], way: Way
) -> Iterator[Finding]:
    if way.outcome == "failed":
        detail = f"call {call.call}: {way.where}: {way.detail}"
        yield Finding("reproduction", check, recorded.sequence, detail)


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    reference: int = 0
    assembly: int = 0
    unreproducible: int = 0
    why: str = ""

    def take(self, referred: Way, assembled: Way) -> None:
        self.calls += 1
        self.reference += referred.outcome == "reproduced"
        self.assembly += assembled.outcome == "reproduced"
        if assembled.outcome == "unreproducible":
            self.unreproducible += 1
            self.why = self.why or assembled.detail

    def reproduced(self, behind: Sequence[str], hole: str) -> Reproduced:
        return Reproduced(
            self.calls + len(behind),
            self.reference,
            self.assembly,
            self.unreproducible,
            self.why,
            len(behind),
            f"{_named(behind)} cannot be had again, since {hole}" if behind else "",
        )


def _named(calls: Sequence[str]) -> str:
    return f"call {calls[0]}" if len(calls) == 1 else f"calls {calls[0]} to {calls[-1]}"
