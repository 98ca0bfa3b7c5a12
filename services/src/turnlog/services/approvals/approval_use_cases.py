"""Deciding whether a tool may run that waits for approval."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.contract.turn_payloads import CommandResult
from turnlog.events.model.tool_events import ApprovalDecision
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.session.commands import DecideApproval
from turnlog.services.command_handling.callers import Caller
from turnlog.services.sessions.client_commands import handle_client_command
from turnlog.services.sessions.command_handler import CommandHandler


@dataclass(frozen=True, slots=True)
class ApprovalUseCases:
    """Decides about tools that wait for a person."""

    command_handler: CommandHandler

    async def decide_approval(
        self,
        caller: Caller,
        session: str,
        turn: int,
        approval: int,
        *,
        decision: ApprovalDecision,
        reason: str = "",
    ) -> CommandResult:
        """Decide whether a tool may run; the turn goes on after the last decision.

        The same decision again changes nothing, another one is refused.
        """
        command = DecideApproval(turn, approval, decision, check_text(reason, "reason"))
        return await handle_client_command(
            self.command_handler, caller, session, command, turn=turn
        )
