"""Waiting until a turn is settled, with a timeout."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Receive

from turnlog.events.envelope import Recorded
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import TurnCancelled, TurnCompleted, TurnFailed
from turnlog.projections.history import Turn, history
from turnlog.services.gateway.desk import Desk
from turnlog.services.gateway.payloads.turns import Submitted
from turnlog.services.runtime.tasks import stopped


@dataclass(frozen=True, slots=True)
class Outcome:
    """A settled turn, and the sequence of the event that settled it."""

    turn: Turn
    sequence: int


async def outcome(
    desk: Desk, tenant: str, submitted: Submitted, seconds: float, receive: Receive
) -> Outcome | None:
    """Wait until a turn is settled.

    Returns None after the timeout, at shutdown, or when the client disconnects.
    """
    watching = asyncio.create_task(_settled(desk, tenant, submitted))
    stopping = asyncio.create_task(desk.stopping.wait())
    gone = asyncio.create_task(_gone(receive))
    tasks = (watching, stopping, gone)
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return watching.result() if watching.done() else None
    finally:
        await stopped(*tasks)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _settled(desk: Desk, tenant: str, submitted: Submitted) -> Outcome:
    seen: list[Recorded] = []
    turn, before = submitted.turn, submitted.sequence - 1
    async with aclosing(desk.log.watch(tenant, submitted.session, before)) as events:
        async for recorded in events:
            seen.append(recorded)
            desk.sessions.note(recorded)
            if settles(recorded, turn):
                (told,) = (each for each in history(seen) if each.turn == turn)
                return Outcome(told, recorded.sequence)
    raise AssertionError("a watch ends only with its reader")


def settles(recorded: Recorded, turn: int) -> bool:
    """Return whether an event ends a turn."""
    match recorded.event:
        case (
            TurnCompleted(turn=number)
            | TurnFailed(turn=number)
            | TurnCancelled(turn=number)
            | ReplyRedacted(turn=number)
        ):
            return number == turn
        case _:
            return False
