"""Waiting for a turn: until it is settled, or until it waits for a person itself."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Receive

from turnlog.events.async_tasks import run_tasks
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.tool_events import ApprovalRequested
from turnlog.events.model.turn_events import is_end_of_turn
from turnlog.projections.read_models.session_history import HistoryTurn, build_history
from turnlog.projections.read_models.turn_activity import (
    NO_ACTIVITY,
    TurnToolUse,
    collect_activity,
    is_undecided,
)
from turnlog.services.api.turn_payloads import SubmittedTurn
from turnlog.services.gateway.dependencies import GatewayDependencies


@dataclass(frozen=True, slots=True)
class SettledTurn:
    """A settled turn, and the sequence of the event that settled it."""

    turn: HistoryTurn
    sequence: int


@dataclass(frozen=True, slots=True)
class UndecidedTurn:
    """A turn that goes on when a person has decided about its tools."""

    uses: tuple[TurnToolUse, ...]
    """The tools that wait for approval."""
    sequence: int
    """The sequence up to which nobody had decided."""


async def wait_for_outcome(
    deps: GatewayDependencies,
    tenant: str,
    submitted: SubmittedTurn,
    timeout: float,
    receive: Receive,
) -> SettledTurn | UndecidedTurn | None:
    """Wait until a turn is settled, or waits for an approval.

    Returns None after the timeout, at shutdown, or when the client disconnects.
    """
    watching = _watch_until_outcome(deps, tenant, submitted)
    async with run_tasks(
        watching, deps.shutdown_event.wait(), _wait_for_disconnect(receive)
    ) as tasks:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        outcome: SettledTurn | UndecidedTurn | None = tasks[0].result() if tasks[0].done() else None
        return outcome


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _watch_until_outcome(
    deps: GatewayDependencies, tenant: str, submitted: SubmittedTurn
) -> SettledTurn | UndecidedTurn:
    seen: list[RecordedEvent] = []
    turn, before = submitted.turn, submitted.sequence - 1
    asked_upto: int | None = None
    async with aclosing(deps.log.watch_session(tenant, submitted.session, before)) as events:
        async for recorded in events:
            seen.append(recorded)
            deps.command_handler.apply_observed_event(recorded)
            if is_end_of_turn(recorded.event, turn):
                (settled_turn,) = (each for each in build_history(seen) if each.turn == turn)
                return SettledTurn(settled_turn, recorded.sequence)
            match recorded.event:
                case ApprovalRequested(turn=asked) if asked == turn:
                    # Other requests of the same answer, and the decisions about one that this
                    # watch meets late, are on the log already.
                    last = await deps.command_handler.load_last_event(
                        tenant, submitted.session, recorded.sequence
                    )
                    asked_upto = last.sequence
                case _:
                    pass
            if asked_upto is not None and recorded.sequence >= asked_upto:
                uses = collect_activity(seen).get(turn, NO_ACTIVITY).uses
                if undecided := tuple(use for use in uses if is_undecided(use)):
                    return UndecidedTurn(undecided, recorded.sequence)
                asked_upto = None
    raise AssertionError("a watch ends only with its reader")
