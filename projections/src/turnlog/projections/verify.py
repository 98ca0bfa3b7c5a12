"""Verifying a session: whether its record is whole, unaltered, and still tells every prompt.

The chain shows alteration, the sequence shows holes, and a head that somebody noted earlier
shows what neither can: that the end was cut off, or that everything was written anew. Each
finding names its event. Nothing is repaired here, and nothing stops at the first finding but
the reading back of prompts, which needs an unbroken record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Digest
from turnlog.events.envelope import Head, Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.turn import TurnCancelled, TurnCompleted, TurnFailed
from turnlog.projections.history import Turns, learn
from turnlog.projections.window.readback import blobs_of, read_back, read_parts, tools_of
from turnlog.projections.window.request import ChatMessage, Request

Check = Literal["log", "sequence", "chain", "noted", "answers", "prompts"]
"""What was looked at: `sequence` and `noted` find what is missing, the others what is wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong."""

    check: Check
    sequence: int | None
    """The event it was found at; none where that cannot be told."""
    detail: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A session's head as somebody wrote it down at an earlier time."""

    sequence: int
    hash: Digest


@dataclass(frozen=True, slots=True)
class Report:
    """What verifying came to."""

    head: Head | None
    events: int
    prompts: int
    """Prompts that read back as they were recorded."""
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def blobs_needed(events: Sequence[Recorded]) -> tuple[Digest, ...]:
    """Name the blobs that verifying these events will ask for."""
    named = (digest for _, call in calls_in(events) for digest in blobs_of(call.manifest))
    return tuple(dict.fromkeys(named))


def calls_in(events: Sequence[Recorded]) -> Iterator[tuple[Recorded, ContextAssembled]]:
    """Give the calls whose prompt these events fix."""
    for recorded in events:
        if isinstance(recorded.event, ContextAssembled):
            yield recorded, recorded.event


def call_in(events: Sequence[Recorded], call: str) -> tuple[Recorded, ContextAssembled]:
    """Give what fixed the prompt of a call; refuses a call that was never made."""
    found = [pair for pair in calls_in(events) if pair[1].call == call]
    if not found:
        raise Refused("unknown-call", f"there is no call {call[:80]!r}", field="call")
    return found[-1]


def verify(
    events: Sequence[Recorded], blobs: Mapping[Digest, str], noted: Noted | None = None
) -> Report:
    """Check all events of a session, given in stored order."""
    calls = tuple(calls_in(events))
    broken = tuple(_links(events))
    unproven = () if broken else tuple(_prompts(events, blobs))
    found = (*broken, *_heads(events, noted), *_answers(events), *unproven)
    return Report(
        head=events[-1].head if events else None,
        events=len(events),
        prompts=0 if broken else len(calls) - len(unproven),
        findings=tuple(sorted(found, key=lambda finding: finding.sequence or 0)),
    )


def unreadable(error: Corrupt) -> Report:
    """Report a session whose events cannot even be read."""
    return Report(None, 0, 0, (Finding("log", None, str(error)),))


def _links(events: Sequence[Recorded]) -> Iterator[Finding]:
    for first in events[:1]:
        if first.sequence != 1:
            yield Finding("sequence", first.sequence, "what came before it is missing")
        elif first.envelope.prevhash is not None:
            yield Finding("chain", 1, "it continues an event although it is the first")
    for earlier, later in pairwise(events):
        if (later.tenant, later.session) != (earlier.tenant, earlier.session):
            yield Finding("chain", later.sequence, "it belongs to another session")
        elif later.sequence != earlier.sequence + 1:
            yield Finding("sequence", later.sequence, f"it follows event {earlier.sequence}")
        elif later.envelope.prevhash != earlier.head.hash:
            detail = f"it does not continue the stored bytes of event {earlier.sequence}"
            yield Finding("chain", later.sequence, detail)


def _heads(events: Sequence[Recorded], noted: Noted | None) -> Iterator[Finding]:
    if noted is None:
        return
    there = next((event for event in events if event.sequence == noted.sequence), None)
    if there is None:
        yield Finding("noted", noted.sequence, "it was noted, and is not there")
    elif there.head.hash != noted.hash:
        yield Finding("noted", noted.sequence, "its bytes are not those that were noted")


def _answers(events: Sequence[Recorded]) -> Iterator[Finding]:
    settled: dict[int, int] = {}
    for recorded in events:
        match recorded.event:
            case TurnCompleted(turn=turn) | TurnFailed(turn=turn) | TurnCancelled(turn=turn):
                if turn in settled:
                    detail = f"turn {turn} was settled before, by event {settled[turn]}"
                    yield Finding("answers", recorded.sequence, detail)
                settled.setdefault(turn, recorded.sequence)
            case _:
                pass


def _prompts(events: Sequence[Recorded], blobs: Mapping[Digest, str]) -> Iterator[Finding]:
    """Read every prompt back; the turns are learnt on the way, so that events are read once."""
    turns: Turns = {}
    for place, recorded in enumerate(events):
        match recorded.event:
            case ContextAssembled() as call:
                try:
                    _same(call, read_parts(call.manifest, events[:place], turns, blobs))
                except Corrupt as error:
                    yield Finding("prompts", recorded.sequence, f"call {call.call}: {error}")
            case _:
                learn(turns, recorded)


def proven(
    call: ContextAssembled, events: Sequence[Recorded], blobs: Mapping[Digest, str]
) -> Request:
    """Read a call's request back; raises `Corrupt` where it is not the recorded one."""
    return _same(call, read_back(call.manifest, events, blobs))


def _same(call: ContextAssembled, messages: tuple[ChatMessage, ...]) -> Request:
    request = Request(call.model, messages, tools_of(call.manifest), call.parameters)
    if request.digest != call.manifest.digest:
        raise Corrupt("request", f"it reads back as {request.digest}")
    return request
