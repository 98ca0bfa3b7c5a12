"""Waiting for a turn: until it is settled, or until it or a child of it waits for a person."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Receive

from turnlog.events.async_tasks import run_tasks, stream_watch
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.turn_events import is_end_of_turn
from turnlog.projections.read_models.session_history import HistoryTurn, build_history
from turnlog.services.api.turn_payloads import SubmittedTurn
from turnlog.services.gateway.dependencies import GatewayDependencies
from turnlog.services.gateway.streaming.approval_watch import (
    GuardedTool,
    list_undecided,
    open_approval_watch,
)


@dataclass(frozen=True, slots=True)
class SettledTurn:
    """A settled turn, and the sequence of the event that settled it."""

    turn: HistoryTurn
    sequence: int


@dataclass(frozen=True, slots=True)
class UndecidedTurn:
    """A turn that goes on when a person has decided about its tools."""

    tools: tuple[GuardedTool, ...]
    """The tools that wait for approval, of the turn or of one of its children."""
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
    session, turn, wake = submitted.session, submitted.turn, asyncio.Event()
    seen: list[RecordedEvent] = []
    async with (
        deps.log.open_session_watch(tenant, session, submitted.sequence - 1, wake) as own,
        open_approval_watch(deps, own, (tenant, session), turn, wake) as log,
        aclosing(stream_watch(wake, log)) as items,
    ):
        async for item in items:
            if isinstance(item, RecordedEvent):
                seen.append(item)
                deps.command_handler.apply_observed_event(item)
                if is_end_of_turn(item.event, turn):
                    (settled_turn,) = (each for each in build_history(seen) if each.turn == turn)
                    return SettledTurn(settled_turn, item.sequence)
                continue
            # Other requests of the same answer, and the decisions about one that this watch meets
            # late, are on the log already.
            undecided = await list_undecided(deps, tenant, item.session, item.turn)
            if undecided:
                return UndecidedTurn(undecided, seen[-1].sequence)
    raise AssertionError("a watch ends only with its reader")
