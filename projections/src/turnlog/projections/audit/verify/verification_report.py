"""What verification returns: totals, and a report with findings and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final

from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.model.call_events import (
    ATTEMPT_END_TYPES,
    AttemptEnded,
    AttemptStarted,
    ContextAssembled,
    find_attempt_end,
)
from turnlog.events.model.child_events import ChildOutcome, ParentInput
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.events.seals.leaf_sets import LeafRuns
from turnlog.projections.audit.record.event_queries import filter_by_type
from turnlog.projections.audit.verify.audit_findings import (
    AuditFinding,
    list_failed_promises,
    sort_findings,
)
from turnlog.projections.audit.verify.verdicts import (
    AuditVerdicts,
    ReproductionCounts,
    build_verdicts,
)
from turnlog.projections.session_views.cost_totals import is_guessed_price

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
    inputs: tuple[ParentInput, ...] = ()
    """References to the inputs of the parent's turn, which the child may have been given."""


@dataclass(frozen=True, slots=True)
class ChildTurn:
    """A turn of a child session by its own record."""

    turn: int
    asked: Digest | None
    """The digest of its text; None if it has none."""
    replied: tuple[Digest, ...]
    """The digests of its reply, and of what replaced the reply."""
    inputs: tuple[ParentInput, ...] = ()
    """Its references to inputs of the parent's turn."""


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
    media: Mapping[Digest, int] = field(default_factory=dict[Digest, int])
    """The pictures, recordings and files that it names, which are to be read from their store, with
    the sequence of the first event that names each.
    """
    source_closures: Mapping[int, LeafRuns] = field(default_factory=dict[int, LeafRuns])
    """Events that are erased by no erasure of the session, with their keys of the library, which an
    erasure there is to name.
    """

    @property
    def is_sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    @property
    def verdicts(self) -> AuditVerdicts:
        """The verdict on each promise."""
        against = list_failed_promises(self.findings)
        return build_verdicts(
            against, self.prompts, witnessed=self.witnessed, compared=self.compared
        )

    def add_findings(self, findings: Iterable[AuditFinding]) -> VerificationReport:
        """Return the report with more findings."""
        return replace(self, findings=sort_findings((*self.findings, *findings)))

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
