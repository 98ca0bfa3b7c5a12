"""The rule of approvals, checked on the record: no tool that needs one runs without it.

Which tools need approval is read from the event that pins a profile's tools, and not from what was
requested, so that a run without any request is found as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.session_events import BlueprintMoved, ProfileSwitched, SessionOpened
from turnlog.events.model.tool_events import ApprovalDecided, ToolsSnapshotted, ToolStarted
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
