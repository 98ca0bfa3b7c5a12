"""Deciding whether a tool may run that waits for a person."""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnlog.contract.session_requests import DecideApprovalRequest
from turnlog.contract.turn_payloads import ApprovalResult
from turnlog.events.content import Digest, compute_digest
from turnlog.events.model.tool_events import ApprovalDecided, ToolCalled
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.session.commands import Command, DecideApproval
from turnlog.projections.session.rules.steps.approval_rules import (
    check_decision,
    check_shown_digest,
)
from turnlog.projections.session.state import SessionState
from turnlog.services.approvals.approval_views import RecordedDecision, create_approval_result
from turnlog.services.approvals.argument_edits import check_edited_arguments, encode_edit
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.guarded_requests import GuardedRequest
from turnlog.services.sessions.command_handler import ChooseCommand, CommandHandler
from turnlog.services.sessions.request_guard import RequestGuard


@dataclass(frozen=True, slots=True)
class ApprovalUseCases:
    """Decides about tools that wait for a person."""

    command_handler: CommandHandler
    blueprints: BlueprintStore

    async def decide_approval(
        self,
        caller: Caller,
        session: str,
        *,
        turn: int,
        approval: int,
        request: DecideApprovalRequest,
    ) -> ApprovalResult:
        """Decide whether a tool may run; the turn goes on after the last decision.

        The same decision again has the same answer, also after the turn; another one is refused.
        """
        guard = RequestGuard(self.command_handler, self.blueprints)

        async def decide(
            as_caller: Caller, guarded: GuardedRequest[DecideApprovalRequest]
        ) -> ApprovalResult:
            arguments = guarded.form.arguments
            command = _build_command(turn, approval, guarded.form)

            async def choose(state: SessionState | None) -> Command | None:
                state = await guard.require_allowed(state, guarded)
                recorded = await self._load_decision(state, command)
                if recorded is not None:
                    _check_recorded_decision(command, recorded)
                    return None
                if arguments is not None:
                    blobs = self.blueprints.blobs
                    await check_edited_arguments(blobs, state, command, arguments)
                material = await self.blueprints.load_material(state)
                return replace(command, failed_policy=material.blueprint.policies.failed)

            return await self._record_decision(as_caller, session, command, choose)

        return await guard.run_guarded(caller, session, request, decide)

    async def _record_decision(
        self, caller: Caller, session: str, command: DecideApproval, choose: ChooseCommand
    ) -> ApprovalResult:
        done = await self.command_handler.handle(
            caller.tenant, session, choose, caller.metadata, command=caller.command
        )
        recorded = await self._load_decision(done.state, command)
        if recorded is None:
            raise AssertionError("the approval is decided")
        return create_approval_result(recorded)

    async def _load_decision(
        self, state: SessionState | None, command: DecideApproval
    ) -> RecordedDecision | None:
        """Return what was decided about a tool, also in a turn that is over, or None."""
        if state is None or not 1 <= command.turn <= state.submitted:
            return None
        asked: dict[tuple[str, str], Digest] = {}
        for recorded in await self.command_handler.load_turn_events(state, command.turn):
            match recorded.event:
                case ToolCalled(turn=command.turn, call=call, id=id, arguments=written):
                    asked[call, id] = compute_digest(written)
                case ApprovalDecided(turn=command.turn, approval=command.approval) as decided:
                    return RecordedDecision(recorded, decided, asked[decided.call, decided.id])
                case _:
                    pass
        return None


def _build_command(turn: int, approval: int, form: DecideApprovalRequest) -> DecideApproval:
    edited = (
        None if form.arguments is None else encode_edit(form.arguments, form.decision, form.shown)
    )
    return DecideApproval(
        turn=turn,
        approval=approval,
        decision=form.decision,
        reason=check_text(form.reason, "reason"),
        shown=form.shown,
        edited=edited,
    )


def _check_recorded_decision(command: DecideApproval, recorded: RecordedDecision) -> None:
    """Refuse a decision that differs from the one on record; names who decided, and when."""
    check_shown_digest(command, recorded.asked)
    by = f"by {recorded.by}" if recorded.by else "by its deadline"
    check_decision(
        command,
        recorded.event.decision,
        recorded.event.approved,
        asked=recorded.asked,
        by_whom=f"{by} at {recorded.at}",
    )
