"""Verifying a session: is its record unaltered, is it whole, and can every prompt be had again.

The chain shows alteration, the sequence shows holes, and a head that somebody noted earlier
shows what neither can: that the end was cut off, or that everything was written anew. Nothing is
repaired here, and nothing stops at the first finding: only what lies behind a hole is not had
again, since nobody knows what stood in it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from turnlog.events.call import ContextAssembled
from turnlog.events.codec import read
from turnlog.events.content import Digest, digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Raw
from turnlog.projections.audit.chain import Noted, broken
from turnlog.projections.audit.conduct import answers, tools
from turnlog.projections.audit.findings import Finding, in_order
from turnlog.projections.audit.report import Report, Reproduced
from turnlog.projections.audit.reproduction import Way, by_assembly, by_reference, failed
from turnlog.projections.audit.retelling import Retelling, blobs_in
from turnlog.projections.audit.totals import totals
from turnlog.projections.history import Turns, learn
from turnlog.projections.window.material import Material
from turnlog.projections.window.pinned import Installed, Pins


@dataclass(frozen=True, slots=True)
class Means:
    """What verifying takes besides the record."""

    installed: Installed
    materials: dict[Pins, Material] = field(default_factory=dict[Pins, Material])
    """Material read so far; sessions that are verified together share it."""


def verify(
    events: Sequence[Recorded],
    blobs: Mapping[Digest, str],
    means: Means,
    noted: Noted | None = None,
) -> Report:
    """Check all events of a session, given in stored order, with the blobs they name."""
    links = tuple(broken(events, noted))
    sound = {digest: text for digest, text in blobs.items() if digest_of(text) == digest}
    lost = tuple(_lost(events, blobs, sound))
    prompts, unproven = _prompts(events, sound, means)
    found = (*links, *answers(events), *tools(events), *lost, *unproven)
    return Report(
        head=events[-1].head if events else None,
        events=len(events),
        prompts=prompts,
        totals=totals(events),
        findings=in_order(found),
        witnessed=noted is not None,
    )


def decoded(stored: Iterable[Raw]) -> tuple[tuple[Recorded, ...], tuple[Finding, ...]]:
    """Decode stored bytes, and find those that no release can have written."""
    events: list[Recorded] = []
    junk: list[Finding] = []
    for raw in stored:
        try:
            events.append(read(raw.stored, raw.stream_sequence))
        except Corrupt as error:
            behind = events[-1].sequence + 1 if events else 1
            junk.append(Finding("integrity", "log", behind, str(error)))
    return tuple(events), tuple(junk)


def _lost(
    events: Sequence[Recorded], blobs: Container[Digest], sound: Container[Digest]
) -> Iterator[Finding]:
    """Find blobs that are gone or altered, at the first event that names them."""
    told: set[Digest] = set()
    for recorded in events:
        for digest in blobs_in(recorded):
            if digest in sound or digest in told:
                continue
            told.add(digest)
            if digest in blobs:
                detail = f"it names blob {digest}, whose bytes have changed"
                yield Finding("integrity", "blobs", recorded.sequence, detail)
            else:
                detail = f"it names blob {digest}, which is gone"
                yield Finding("completeness", "blobs", recorded.sequence, detail)


def _prompts(
    events: Sequence[Recorded], blobs: Mapping[Digest, str], means: Means
) -> tuple[Reproduced, tuple[Finding, ...]]:
    """Have every prompt again that lies before a hole; events are gone through once."""
    whole = _unbroken(events)
    telling = Retelling(blobs, means.installed, materials=means.materials)
    turns: Turns = {}
    found: list[Finding] = []
    tally = _Tally()
    for recorded in events[:whole]:
        if isinstance(call := recorded.event, ContextAssembled):
            referred = by_reference(call, telling.known, turns, blobs)
            assembled = _assembled(telling, recorded)
            tally.take(referred, assembled)
            found += _unproven(recorded, call, "reference", referred)
            found += _unproven(recorded, call, "assembly", assembled)
        else:
            telling.told(recorded)
            learn(turns, recorded)
    behind = sum(isinstance(each.event, ContextAssembled) for each in events[whole:])
    return tally.reproduced(behind), tuple(found)


def _unbroken(events: Sequence[Recorded]) -> int:
    """Say how many events stand in one row from the first."""
    for place, recorded in enumerate(events):
        first = events[0]
        same = (recorded.tenant, recorded.session) == (first.tenant, first.session)
        if not same or recorded.sequence != place + 1:
            return place
    return len(events)


def _assembled(telling: Retelling, recorded: Recorded) -> Way:
    try:
        made = telling.told(recorded)
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

    def reproduced(self, unchecked: int) -> Reproduced:
        return Reproduced(
            self.calls + unchecked,
            self.reference,
            self.assembly,
            self.unreproducible,
            self.why,
            unchecked,
        )
