"""Requests from clients to gateways: answered, refused, or lost on the way or with the gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from tests.simulation.processes.simulated_roles import SimulatedGateway
from turnlog.events.errors import TurnlogError
from turnlog.services.gateway.turn_answers import encode_turn_events
from turnlog.services.http.problem_details import convert_error
from turnlog.services.use_cases.turns.turn_stream_events import TurnStreamEvent

ANSWER_TIMEOUT: Final = 12.0
"""Seconds a client waits for an answer; twice as long for the next frame of a stream."""


@dataclass(frozen=True, slots=True)
class SimulatedAnswer:
    """What a client received."""

    status: int
    body: dict[str, Any] = field(default_factory=dict[str, Any])


RequestHandler = Callable[[SimulatedGateway], Awaitable[Response | BaseModel]]


async def send_request(
    gateway: SimulatedGateway, handler: RequestHandler
) -> SimulatedAnswer | None:
    """Send a request to a gateway; return None when no answer comes."""
    loop = gateway.role.process.loop
    future: asyncio.Future[SimulatedAnswer] = loop.create_future()

    async def serve() -> None:
        answer = await _run_handler(gateway, handler)
        loop.call_later(_draw_delay(gateway), _resolve_answer, future, answer, context=loop.outside)

    loop.call_later(
        _draw_delay(gateway), lambda: gateway.role.process.spawn_task(serve()), context=loop.outside
    )
    with suppress(TimeoutError):
        return await asyncio.wait_for(future, ANSWER_TIMEOUT)
    return None


def _resolve_answer(future: asyncio.Future[SimulatedAnswer], answer: SimulatedAnswer) -> None:
    if not future.done():
        future.set_result(answer)


def _draw_delay(gateway: SimulatedGateway) -> float:
    loop = gateway.role.process.loop
    return loop.chance.random() * gateway.role.connection.fault_profile.latency


async def _run_handler(gateway: SimulatedGateway, handler: RequestHandler) -> SimulatedAnswer:
    try:
        result = await handler(gateway)
    except TurnlogError as error:
        problem = convert_error(error)
        return SimulatedAnswer(problem.status, {"code": problem.code, "detail": problem.detail})
    if isinstance(result, BaseModel):
        return SimulatedAnswer(200, result.model_dump(mode="json"))
    return SimulatedAnswer(result.status_code, json.loads(bytes(result.body)))


StreamFrame = tuple[str, str, dict[str, Any]]
"""Cursor, name, data."""

StreamHandler = Callable[[SimulatedGateway], Awaitable[AsyncGenerator[TurnStreamEvent] | None]]


async def stream_frames(
    gateway: SimulatedGateway, streamer: StreamHandler
) -> AsyncGenerator[StreamFrame | SimulatedAnswer]:
    """Read a stream of a gateway.

    A refusal is yielded as an answer, and silence ends the stream.
    """
    loop, process = gateway.role.process.loop, gateway.role.process
    frames: asyncio.Queue[StreamFrame | SimulatedAnswer | None] = asyncio.Queue()
    at = loop.time()

    def send(item: StreamFrame | SimulatedAnswer | None) -> None:
        nonlocal at
        at = max(at + 1e-6, loop.time() + _draw_delay(gateway))
        loop.call_at(at, frames.put_nowait, item, context=loop.outside)

    async def serve() -> None:
        try:
            events = await streamer(gateway)
        except TurnlogError as error:
            problem = convert_error(error)
            return send(
                SimulatedAnswer(problem.status, {"code": problem.code, "detail": problem.detail})
            )
        if events is None:
            return send(SimulatedAnswer(204))
        with suppress(TurnlogError):
            async for frame in encode_turn_events(events):
                send(_parse_frame(frame))
        return send(None)

    serving = process.spawn_task(serve())
    try:
        while (item := await asyncio.wait_for(frames.get(), ANSWER_TIMEOUT * 2)) is not None:
            yield item
    except TimeoutError:
        return
    finally:
        loop.call_soon(serving.cancel, context=process.context)


def _parse_frame(frame: bytes) -> StreamFrame:
    fields = dict(line.split(": ", 1) for line in frame.decode().strip().split("\n"))
    return fields["id"], fields["event"], json.loads(fields["data"])
