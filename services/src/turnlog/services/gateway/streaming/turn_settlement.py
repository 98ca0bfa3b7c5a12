"""Waiting until a turn is settled, with a timeout."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Receive

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.turn_events import is_end_of_turn
from turnlog.projections.read_models.session_history import HistoryTurn, build_history
from turnlog.services.api.turn_payloads import SubmittedTurn
from turnlog.services.gateway.dependencies import GatewayDependencies


@dataclass(frozen=True, slots=True)
class SettledTurn:
    """A settled turn, and the sequence of the event that settled it."""

    turn: HistoryTurn
    sequence: int


async def wait_for_settlement(
    deps: GatewayDependencies,
    tenant: str,
    submitted: SubmittedTurn,
    timeout: float,
    receive: Receive,
) -> SettledTurn | None:
    """Wait until a turn is settled.

    Returns None after the timeout, at shutdown, or when the client disconnects.
    """
    watching = asyncio.create_task(_watch_until_settled(deps, tenant, submitted))
    stopping = asyncio.create_task(deps.shutdown_event.wait())
    gone = asyncio.create_task(_wait_for_disconnect(receive))
    tasks = (watching, stopping, gone)
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return watching.result() if watching.done() else None
    finally:
        await cancel_tasks(*tasks)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _watch_until_settled(
    deps: GatewayDependencies, tenant: str, submitted: SubmittedTurn
) -> SettledTurn:
    seen: list[RecordedEvent] = []
    turn, before = submitted.turn, submitted.sequence - 1
    async with aclosing(deps.log.watch_session(tenant, submitted.session, before)) as events:
        async for recorded in events:
            seen.append(recorded)
            deps.command_handler.apply_observed_event(recorded)
            if is_end_of_turn(recorded.event, turn):
                (told,) = (each for each in build_history(seen) if each.turn == turn)
                return SettledTurn(told, recorded.sequence)
    raise AssertionError("a watch ends only with its reader")
