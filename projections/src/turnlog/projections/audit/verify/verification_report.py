"""What verification returns: findings, totals, and a report with four verdicts.

A record makes four promises: its bytes are unaltered (integrity), none is missing (completeness),
every prompt can be reproduced, and the read models agree with the log (totals). They are judged
separately, since one may fail while the others hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, Literal

from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.model.call_events import (
    ATTEMPT_END_TYPES,
    AttemptEnded,
    AttemptStarted,
    ContextAssembled,
    find_attempt_end,
)
from turnlog.events.model.child_events import ChildOutcome
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.projections.audit.record.event_queries import filter_by_type
from turnlog.projections.session_views.cost_totals import is_guessed_price

VerdictName = Literal["integrity", "completeness", "reproduction", "totals"]
"""The promise that a finding is against."""

CheckName = Literal[
    "log",
    "stream",
    "sequence",
    "chain",
    "noted",
    "answers",
    "tools",
    "children",
    "blobs",
    "reference",
    "assembly",
    "totals",
]
"""The check that made the finding."""

ReproductionOutcome = Literal["reproduced", "failed", "unreproducible"]
"""`unreproducible` is no failure: this version or installation cannot decide."""


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Something that is wrong with a record."""

    verdict: VerdictName
    """The verdict that it affects."""
    check: CheckName
    """The check that found it."""
    sequence: int | None
    """The sequence of the event at fault; None where it cannot be determined."""
    detail: str
    """What is wrong."""


def sort_findings(findings: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """Return the findings ordered by the sequence of their events."""
    return tuple(sorted(findings, key=lambda finding: finding.sequence or 0))


_COUNTED_TYPES: Final = (
    TurnSubmitted,
    TurnQueued,
    ContextAssembled,
    AttemptStarted,
    *ATTEMPT_END_TYPES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTotals:
    """Turns, calls, tokens and costs of a session up to a sequence, by its own events.

    The read models must show the same figures once they have reached that sequence.
    """

    sequence: int
    turns: int = 0
    calls: int = 0
    """Calls whose prompt was fixed."""
    attempts: int = 0
    tokens: int = 0
    """Tokens of all prompts, as their manifests count them."""
    input_tokens: int = 0
    """Sum over the attempts that report it."""
    output_tokens: int = 0
    micro_dollars: int = 0
    guessed_attempts: int = 0
    """Attempts whose price is a guess."""
    unpriced_attempts: int = 0
    """Ended attempts without a price, which are not in the sum."""


def compute_totals(events: Sequence[RecordedEvent]) -> SessionTotals:
    """Compute the totals of a session.

    Of two events about the same attempt or call, the later one counts.
    """
    turns = set[int]()
    calls: dict[str, int] = {}
    attempts: dict[tuple[int, int], AttemptEnded | None] = {}
    for recorded in filter_by_type(events, *_COUNTED_TYPES):
        match recorded.event:
            case TurnSubmitted(turn=turn) | TurnQueued(turn=turn):
                turns.add(turn)
            case ContextAssembled(call=call, manifest=manifest):
                calls[call] = manifest.tokens
            case AttemptStarted(turn=turn, attempt=attempt):
                attempts.setdefault((turn, attempt), None)
            case event:
                if ended := find_attempt_end(event):
                    attempts[ended.turn, ended.attempt] = ended
    over = [each for each in attempts.values() if each]
    return SessionTotals(
        sequence=events[-1].sequence if events else 0,
        turns=len(turns),
        calls=len(calls),
        attempts=len(attempts),
        tokens=sum(calls.values()),
        input_tokens=sum(each.usage.input_tokens or 0 for each in over),
        output_tokens=sum(each.usage.output_tokens or 0 for each in over),
        micro_dollars=sum(each.cost.micro_dollars or 0 for each in over),
        guessed_attempts=sum(is_guessed_price(each.cost.price) for each in over),
        unpriced_attempts=sum(each.cost.micro_dollars is None for each in over),
    )


def compare_totals(log: SessionTotals, rows: SessionTotals) -> Iterator[AuditFinding]:
    """Yield a finding for each figure in which the read models differ from the log.

    If they differ in the last sequence, the other figures are not of the same events.
    """
    if rows.sequence != log.sequence:
        end = f"ends at event {log.sequence}" if log.sequence else "has none of its events"
        detail = f"the read models know it up to event {rows.sequence}, the log {end}"
        yield AuditFinding("totals", "totals", log.sequence + 1, detail)
        return
    for each in fields(SessionTotals):
        log_value, row_value = getattr(log, each.name), getattr(rows, each.name)
        if log_value != row_value:
            name = each.name.replace("_", " ")
            detail = f"the read models have {row_value} {name}, the log has {log_value}"
            yield AuditFinding("totals", "totals", log.sequence, detail)


Integrity = Literal["intact", "broken"]
"""Whether the stored bytes are as they were written."""

Completeness = Literal["witnessed", "unwitnessed", "incomplete"]
"""Whether events are missing.

`witnessed` means that a head noted earlier is still there. Without such a head, a record that was
cut at its end looks complete: `unwitnessed`.
"""

Reproduction = Literal["reproduced", "failed", "unreproducible", "unchecked"]
"""Whether every prompt was reproduced in both ways.

`unreproducible` is a limit of this version or installation; `unchecked` says that calls lie behind
a gap.
"""

TotalsAgreement = Literal["equal", "differ", "elsewhere"]
"""Whether the read models agree with the log; `elsewhere` means that they are at another sequence.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionCounts:
    """How many prompts were reproduced, by which way, and how many were not."""

    calls: int
    """Calls with a recorded prompt."""
    reference: int
    """Prompts reproduced by the references of their manifests."""
    assembly: int
    """Prompts reproduced by assembling them again."""
    unreproducible: int
    """Prompts that this version or installation cannot assemble again."""
    why: str
    """What has changed since, for the first of those."""
    unchecked: int
    """Prompts after a gap in the log."""
    behind: str
    """The range of the first of those, and its gap."""


NO_REPRODUCTIONS: Final = ReproductionCounts(
    calls=0, reference=0, assembly=0, unreproducible=0, why="", unchecked=0, behind=""
)
"""The counts of a log without calls."""


@dataclass(frozen=True, slots=True)
class AuditVerdicts:
    """The verdict on each promise."""

    integrity: Integrity
    completeness: Completeness
    reproduction: Reproduction
    totals: TotalsAgreement


def build_verdicts(
    against: Collection[VerdictName],
    prompts: ReproductionCounts,
    *,
    witnessed: bool,
    compared: bool,
) -> AuditVerdicts:
    """Build the verdicts from the promises `against` which something was found.

    `witnessed` and `compared` say whether a noted head and the read models were available.
    """
    completeness: Completeness = "witnessed" if witnessed else "unwitnessed"
    alike: TotalsAgreement = "equal" if compared else "elsewhere"
    return AuditVerdicts(
        integrity="broken" if "integrity" in against else "intact",
        completeness="incomplete" if "completeness" in against else completeness,
        reproduction="failed" if "reproduction" in against else _decide_reproduction(prompts),
        totals="differ" if "totals" in against else alike,
    )


def _decide_reproduction(prompts: ReproductionCounts) -> Reproduction:
    if prompts.unchecked:
        return "unchecked"
    return "unreproducible" if prompts.unreproducible else "reproduced"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildClaim:
    """What a parent recorded of a turn of a child, in one event: that it was asked, or settled."""

    sequence: int
    """The sequence of that event in the parent's log."""
    session: str
    """The child session."""
    turn: int
    """The number of the turn in the child session."""
    outcome: ChildOutcome | None
    """The outcome of the turn; None in the event that requests it."""
    text: Digest | None
    """The digest of its text, or of its reply; None if the record lacks it."""


@dataclass(frozen=True, slots=True)
class ChildTurn:
    """A turn of a child session by its own record."""

    turn: int
    asked: Digest | None
    """The digest of its text; None if it has none."""
    replied: tuple[Digest, ...]
    """The digests of its reply, and of what replaced the reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """The result of verifying one session."""

    head: ChainHead | None
    events: int
    prompts: ReproductionCounts
    totals: SessionTotals
    findings: tuple[AuditFinding, ...]
    """Ordered by the events they were found at."""
    witnessed: bool = False
    """Whether the session was compared with a head noted earlier."""
    compared: bool = False
    """Whether it was compared with read models at the same sequence."""
    child_claims: tuple[ChildClaim, ...] = ()
    """What it recorded of the turns of its children, which is to be compared with these."""
    child_turns: tuple[ChildTurn, ...] = ()
    """Its turns, if it is a child session."""

    @property
    def is_sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    @property
    def verdicts(self) -> AuditVerdicts:
        """The verdict on each promise."""
        against: set[VerdictName] = {finding.verdict for finding in self.findings}
        return build_verdicts(
            against, self.prompts, witnessed=self.witnessed, compared=self.compared
        )

    def compare_rows(
        self, rows: SessionTotals | None, *, is_log_behind: bool
    ) -> VerificationReport:
        """Compare the totals with the read models.

        Rows at another sequence are ignored, unless `is_log_behind` says that the log does not go
        as far as they do.
        """
        if rows is None or (rows.sequence != self.totals.sequence and not is_log_behind):
            return self
        found = (*self.findings, *compare_totals(self.totals, rows))
        return replace(self, findings=found, compared=True)
