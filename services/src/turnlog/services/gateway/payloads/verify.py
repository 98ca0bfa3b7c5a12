"""What is answered about a record: whether it is unaltered, whole, and tells every prompt."""

from __future__ import annotations

from typing import Literal

from turnlog.events.content import Digest
from turnlog.projections.audit.findings import Check, Verdict
from turnlog.projections.audit.report import Agreement, Completeness, Integrity, Reproduction
from turnlog.services.gateway.payloads.closed import Answer


class FindingView(Answer):
    """Something that is wrong with a record."""

    verdict: Verdict
    """Which promise it is against."""
    check: Check
    """Which check found it."""
    sequence: int | None
    """The event it was found at."""
    detail: str
    """What is wrong."""


class PromptsView(Answer):
    """How many prompts were had again, and how."""

    calls: int
    """Calls whose prompt was fixed."""
    reference: int
    """By following the references of their manifests."""
    assembly: int
    """By assembling them again."""
    unreproducible: int
    """That this version or this installation cannot assemble again."""
    why: str
    """What has moved on, for the first of those."""
    unchecked: int
    """That lie behind a hole."""
    behind: str
    """Which they are and what the hole is, for the first of them."""


class TotalsView(Answer):
    """What a session comes to, as its own events tell it."""

    turns: int
    """Turns, of whatever fate."""
    calls: int
    """Calls whose prompt was fixed."""
    attempts: int
    """Tries of them."""
    tokens: int
    """Of all prompts, as their manifests count them."""
    input_tokens: int
    """Sent, as far as it is known."""
    output_tokens: int
    """Received, as far as it is known."""
    micro_dollars: int
    """Paid, as far as it is known."""


class VerifyView(Answer):
    """What checking a session's record came to."""

    session: str
    """The session."""
    sequence: int
    """Its last event."""
    head: Digest | None
    """Digest of that event's stored bytes; whoever notes it can prove what came before."""
    verified: bool
    """Whether nothing is wrong."""
    integrity: Integrity
    """Whether what is there is as it was written."""
    completeness: Completeness
    """Whether anything is missing; `unwitnessed` where nobody noted a head to hold it against."""
    reproduction: Reproduction
    """Whether every prompt could be had again, both ways."""
    totals: Agreement
    """Whether the read models say what the log says; `elsewhere` while they are behind."""
    events: int
    """Events that were read."""
    prompts: PromptsView
    """Prompts that were had again."""
    log: TotalsView
    """What the session comes to."""
    findings: tuple[FindingView, ...]
    """Everything that is wrong, first things first."""


class ProgressLine(Answer):
    """How far verifying a log has come."""

    kind: Literal["progress"] = "progress"
    """Tells the lines apart."""
    stage: Literal["chain", "sessions"]
    """What is being done: the chain of the whole log first, then session by session."""
    done: int
    """Events of that stage so far."""
    goal: int
    """Events it has, or will have."""
    rate: float
    """Events a second, so far."""


class FindingLine(Answer):
    """Something that is wrong with a log."""

    kind: Literal["finding"] = "finding"
    """Tells the lines apart."""
    log: Literal["sessions", "library"]
    """Which log."""
    session: str
    """The session, or the family of the library."""
    finding: FindingView
    """What is wrong."""


class SummaryLine(Answer):
    """What verifying a log came to; the last line."""

    kind: Literal["summary"] = "summary"
    """Tells the lines apart."""
    verified: bool
    """Whether nothing is wrong."""
    integrity: Integrity
    """Whether what is there is as it was written."""
    completeness: Completeness
    """Whether anything is missing; `unwitnessed` where nobody noted heads to hold it against."""
    reproduction: Reproduction
    """Whether every prompt could be had again, both ways."""
    totals: Agreement
    """Whether the read models say what the log says; `elsewhere` where some are behind."""
    sessions: int
    """Sessions there are."""
    unsound: int
    """Of those, with a finding."""
    events: int
    """Events of the sessions and of the library."""
    seconds: float
    """How long it took."""
    prompts: PromptsView
    """Prompts that were had again."""
    log: TotalsView
    """What the sessions come to."""
    findings: int
    """How many lines of them there were."""
    first: FindingLine | None
    """The first bad event, in the order of the log."""
