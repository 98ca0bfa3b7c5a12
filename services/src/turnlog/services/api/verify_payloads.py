"""The responses about verification: findings, verdicts and progress."""

from __future__ import annotations

from typing import Literal

from turnlog.contract.payload_models import ResponseModel
from turnlog.events.content import Digest
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.verdicts import (
    Completeness,
    Integrity,
    Reproduction,
    ReproductionCounts,
    TotalsAgreement,
)


class TotalsView(ResponseModel):
    """The totals of a session, computed from its events."""

    turns: int
    """Submitted turns."""
    calls: int
    """Calls with a recorded prompt."""
    attempts: int
    """Attempts of those calls."""
    tokens: int
    """Tokens of all prompts, as their manifests count them."""
    input_tokens: int
    """Tokens sent, as far as known."""
    output_tokens: int
    """Tokens received, as far as known."""
    micro_dollars: int
    """The cost in millionths of a dollar, as far as known."""
    guessed_attempts: int
    """Attempts whose price is a guess, because no table has their very model."""
    unpriced_attempts: int
    """Attempts without a price, which are not in the sum."""


class ChildVerificationView(ResponseModel):
    """The verification of a child session of a coordinator."""

    session: str
    """The session id of the child."""
    verified: bool
    """Whether there are no findings."""
    prompts: ReproductionCounts
    """The reproduced prompts."""
    findings: tuple[AuditFinding, ...]
    """All findings; those of the check `children` name events of the session that asked it."""


class VerificationView(ResponseModel):
    """The verification of a session."""

    session: str
    """The session id."""
    sequence: int
    """The last sequence."""
    head: Digest | None
    """The digest of the last event's stored bytes; a noted head proves what came before it."""
    verified: bool
    """Whether there are no findings, in the session and in its children."""
    integrity: Integrity
    """Whether the stored events are unaltered."""
    completeness: Completeness
    """Whether events are missing; `unwitnessed` without a noted head to compare with."""
    reproduction: Reproduction
    """Whether every prompt was reproduced in both ways."""
    totals: TotalsAgreement
    """Whether the read models agree with the log; `elsewhere` while they lag."""
    events: int
    """The number of events that were read."""
    prompts: ReproductionCounts
    """The reproduced prompts."""
    log: TotalsView
    """The totals of the session."""
    findings: tuple[AuditFinding, ...]
    """All findings, the first event first."""
    children: tuple[ChildVerificationView, ...] = ()
    """The child sessions that it asked, and theirs."""


class VerifyProgressLine(ResponseModel):
    """The progress of verifying a log."""

    kind: Literal["progress"] = "progress"
    """The discriminator of the lines."""
    stage: Literal["chain", "sessions"]
    """The current stage: first the chain of the whole log, then each session."""
    done: int
    """Events of the stage so far."""
    goal: int
    """The expected number of events of the stage."""
    rate: float
    """Events per second so far."""


class VerifyFindingLine(ResponseModel):
    """A fault of the log."""

    kind: Literal["finding"] = "finding"
    """The discriminator of the lines."""
    log: Literal["sessions", "library", "alerts", "reads", "installation", "blobs"]
    """The stream at fault, or the histories of the installation, which are in that of libraries."""
    session: str | None
    """The session id, the family of the library, or the alert; null for the whole stream."""
    finding: AuditFinding
    """The finding."""


class VerifySummaryLine(ResponseModel):
    """The summary of verifying a log; the last line."""

    kind: Literal["summary"] = "summary"
    """The discriminator of the lines."""
    verified: bool
    """Whether there are no findings."""
    integrity: Integrity
    """Whether the stored events are unaltered."""
    completeness: Completeness
    """Whether events are missing; `unwitnessed` without noted heads to compare with."""
    reproduction: Reproduction
    """Whether every prompt was reproduced in both ways."""
    totals: TotalsAgreement
    """Whether the read models agree with the log; `elsewhere` where some lag."""
    sessions: int
    """The number of sessions."""
    unsound: int
    """The number of sessions with a finding."""
    events: int
    """The number of events of the sessions and of the library."""
    installation_events: int | None = None
    """How many of them are of the installation, such as those of its keys; null where they were not
    verified, since they are no tenant's.
    """
    seconds: float
    """The duration in seconds."""
    prompts: ReproductionCounts
    """The reproduced prompts."""
    log: TotalsView
    """The totals of the sessions."""
    findings: int
    """The number of finding lines."""
    first: VerifyFindingLine | None
    """The first finding, in the order of the log."""
