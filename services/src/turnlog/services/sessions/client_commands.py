"""The commands of clients on sessions, each under the idempotency key of its caller."""

from __future__ import annotations

from turnlog.contract.turn_payloads import CommandResult
from turnlog.events.model.turn_events import TurnCancelled
from turnlog.projections.session.commands import CancelTurn, Command
from turnlog.projections.session.state import SessionState
from turnlog.services.command_handling.callers import Caller
from turnlog.services.sessions.command_handler import (
    ChooseCommand,
    CommandHandler,
    CommandOutcome,
)
from turnlog.services.sessions.cut_replies import CutReplyReader


async def handle_client_command(
    command_handler: CommandHandler,
    caller: Caller,
    session: str,
    choose: Command | ChooseCommand,
    *,
    turn: int | None,
) -> CommandResult:
    """Handle a command under the idempotency key of its caller."""
    done = await _handle(command_handler, caller, session, choose)
    return _create_result(session, turn, done)


async def cancel_turn(
    command_handler: CommandHandler,
    cut_replies: CutReplyReader,
    caller: Caller,
    session: str,
    turn: int | None,
) -> CommandResult:
    """Cancel a turn, the open one without a number; the result names it in both cases."""

    async def choose(state: SessionState | None) -> CancelTurn:
        return CancelTurn(turn, await cut_replies.read_cut_reply(state, turn))

    done = await _handle(command_handler, caller, session, choose)
    found = turn or await _find_cancelled_turn(command_handler, caller.tenant, session, done)
    return _create_result(session, found, done)


async def _handle(
    command_handler: CommandHandler, caller: Caller, session: str, choose: Command | ChooseCommand
) -> CommandOutcome:
    return await command_handler.handle(
        caller.tenant, session, choose, caller.metadata, command=caller.command
    )


def _create_result(session: str, turn: int | None, done: CommandOutcome) -> CommandResult:
    sequence = done.memo.sequence if done.memo else done.state.head.sequence
    return CommandResult(session=session, turn=turn, sequence=sequence)


async def _find_cancelled_turn(
    command_handler: CommandHandler, tenant: str, session: str, done: CommandOutcome
) -> int | None:
    """Return the turn that a command cancelled, now or when it was carried out before."""
    if done.memo is None:
        cancelled = (each.event for each in done.events if isinstance(each.event, TurnCancelled))
        return next((event.turn for event in cancelled), None)
    last = await command_handler.load_last_event(tenant, session, done.memo.sequence)
    at = await command_handler.log.find_event(tenant, session, done.memo.sequence, last)
    # Only the beginning of the next turn and a notice to a parent come after it in its batch.
    while at.envelope.commandkey == done.memo.key and not isinstance(at.event, TurnCancelled):
        at = await command_handler.log.find_event(tenant, session, at.sequence - 1, at)
    return at.event.turn if isinstance(at.event, TurnCancelled) else None
