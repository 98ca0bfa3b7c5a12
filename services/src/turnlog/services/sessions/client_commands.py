"""The commands of clients on sessions, each under the idempotency key of its caller."""

from __future__ import annotations

from turnlog.contract.turn_payloads import CommandResult
from turnlog.projections.session.commands import Command
from turnlog.services.command_handling.callers import Caller
from turnlog.services.sessions.command_handler import ChooseCommand, CommandHandler


async def handle_client_command(
    command_handler: CommandHandler,
    caller: Caller,
    session: str,
    choose: Command | ChooseCommand,
    *,
    turn: int | None,
) -> CommandResult:
    """Handle a command under the idempotency key of its caller."""
    done = await command_handler.handle(
        caller.tenant, session, choose, caller.metadata, command=caller.command
    )
    sequence = done.memo.sequence if done.memo else done.state.head.sequence
    return CommandResult(session=session, turn=turn, sequence=sequence)
