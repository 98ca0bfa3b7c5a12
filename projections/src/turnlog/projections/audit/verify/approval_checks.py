"""The rule of approvals, checked on the record: no tool that needs one runs without it.

Which tools need approval is read from the event that pins a profile's tools, and not from what was
requested, so that a run without any request is found as well. The arguments that were shown, those
that were approved and those that ran are compared by their digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.session_events import BlueprintMoved, ProfileSwitched, SessionOpened
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ToolCalled,
    ToolsSnapshotted,
    ToolStarted,
)
from turnlog.projections.audit.record.event_queries import filter_by_type
from turnlog.projections.audit.verify.audit_findings import AuditFinding

_TYPES = (
    *(SessionOpened, ProfileSwitched, BlueprintMoved),
    *(ToolsSnapshotted, ApprovalDecided, ToolStarted),
)


def check_approvals(events: Iterable[RecordedEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each start of a tool that needed approval and did not have it."""
    guarded: dict[str, frozenset[str]] = {}
    approved: dict[tuple[str, str], bool] = {}
    profile = ""
    for recorded in filter_by_type(events, *_TYPES):
        match recorded.event:
            case SessionOpened(profile=opened):
                profile = opened
            case ProfileSwitched(profile=after):
                profile = after
            case BlueprintMoved():
                guarded.clear()
            case ToolsSnapshotted(profile=of, tools=pins):
                guarded[of] = frozenset(name for name, pin in pins.items() if pin.approval)
            case ApprovalDecided(call=call, id=id, decision=decision):
                approved[call, id] = decision == "approve"
            case ToolStarted(call=call, id=id, tool=tool):
                is_guarded = tool in guarded.get(profile, ()) or (call, id) in approved
                if is_guarded and not approved.get((call, id)):
                    detail = f"{tool} was run for call {call}, and nobody had approved it"
                    yield AuditFinding("integrity", "tools", recorded.sequence, detail)
            case _:
                pass


_ARGUMENT_TYPES = (ToolCalled, ApprovalDecided, ToolStarted)


def check_approved_arguments(events: Iterable[RecordedEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each decision about other arguments, and each run with others."""
    asked: dict[tuple[str, str], str] = {}
    approved: dict[tuple[str, str], str | None] = {}
    for recorded in filter_by_type(events, *_ARGUMENT_TYPES):
        match recorded.event:
            case ToolCalled(call=call, id=id, arguments=arguments):
                asked[call, id] = arguments
            case ApprovalDecided(call=call, id=id) as decided:
                approved[call, id] = decided.approved
                yield from _check_decided_arguments(recorded, decided, asked)
            case ToolStarted(call=call, id=id, tool=tool, ran=ran):
                allowed = approved.get((call, id))
                if allowed is not None and allowed != ran:
                    detail = f"{tool} was run for call {call} with other arguments than approved"
                    yield AuditFinding("integrity", "tools", recorded.sequence, detail)
            case _:
                pass


def _check_decided_arguments(
    recorded: RecordedEvent, decided: ApprovalDecided, asked: Mapping[tuple[str, str], str]
) -> Iterator[AuditFinding]:
    written = asked.get((decided.call, decided.id), "")
    if decided.shown not in {None, compute_digest(written)}:
        detail = f"{decided.tool} was decided for call {decided.call} on other arguments than asked"
        yield AuditFinding("integrity", "tools", recorded.sequence, detail)
    may_run = written if decided.edited is None else decided.edited
    if decided.approved not in {None, compute_digest(may_run)}:
        detail = f"the approval of {decided.tool} for call {decided.call} names other arguments"
        yield AuditFinding("integrity", "tools", recorded.sequence, detail)
