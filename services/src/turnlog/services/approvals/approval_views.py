"""What an answer shows of a tool that waits for a person, and of what was decided."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.turn_payloads import ApprovalResult, ListedApproval, RequestedApproval
from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.tool_events import ApprovalDecided
from turnlog.projections.store.read.row_types import ApprovalRow
from turnlog.services.approvals.guarded_tools import GuardedTool


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """What was decided about a tool, and where it is recorded."""

    recorded: RecordedEvent
    event: ApprovalDecided
    asked: Digest
    """Digest of the arguments as the model wrote them."""

    @property
    def by(self) -> str | None:
        """The person who decided; None if the deadline passed first."""
        return None if self.event.cause == "deadline" else self.recorded.envelope.actor

    @property
    def at(self) -> str:
        """When it was decided."""
        return self.recorded.envelope.time


def create_requested_approval(tool: GuardedTool) -> RequestedApproval | None:
    """Return what a person has to know of a tool; None if it needs no approval."""
    use, approval = tool.use, tool.use.approval
    if approval is None:
        return None
    return RequestedApproval(
        session=tool.session,
        turn=tool.turn,
        approval=approval.approval,
        call=use.call,
        id=use.id,
        tool=use.tool,
        arguments=use.arguments,
        digest=compute_digest(use.arguments),
        deadline=approval.deadline,
        decide=_format_decision_path(tool.session, tool.turn, approval.approval),
    )


def create_listed_approval(row: ApprovalRow) -> ListedApproval:
    """Return an approval as a list of all sessions has it, without its arguments."""
    return ListedApproval(
        session=row.session,
        turn=row.turn,
        approval=row.approval,
        user=row.asked_by,
        call=row.call,
        id=row.id,
        tool=row.tool,
        arguments=None,
        requested_at=row.requested_at,
        deadline=row.deadline,
        decide=_format_decision_path(row.session, row.turn, row.approval),
        decision=row.decision,
        decided_at=row.decided_at,
        by=row.decided_by,
    )


def create_approval_result(recorded: RecordedDecision) -> ApprovalResult:
    """Return the answer to a decision; it is the same however often the decision is sent."""
    event = recorded.event
    return ApprovalResult(
        session=recorded.recorded.session,
        turn=event.turn,
        sequence=recorded.recorded.sequence,
        approval=event.approval,
        decision=event.decision,
        by=recorded.by,
        approved=event.approved,
        edited=event.edited is not None,
    )


def _format_decision_path(session: str, turn: int, approval: int) -> str:
    return format_path(api_paths.APPROVAL, session=session, turn=turn, approval=approval)
