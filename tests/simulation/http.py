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

from tests.simulation.roles import Gateway
from turnlog.events.errors import TurnlogError
from turnlog.services.gateway.problem_details import convert_error
from turnlog.services.gateway.streaming.sse import SseResponse

PATIENCE: Final = 12.0
"""Seconds a client waits for an answer; twice as long for the next frame of a stream."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client received."""

    status: int
    body: dict[str, Any] = field(default_factory=dict[str, Any])


Handler = Callable[[Gateway], Awaitable[Response | BaseModel]]


async def asked(gateway: Gateway, handler: Handler) -> Answer | None:
    """Send a request to a gateway; return None when no answer comes."""
    loop = gateway.role.process.loop
    came: asyncio.Future[Answer] = loop.create_future()

    async def serve() -> None:
        answer = await _answered(gateway, handler)
        loop.call_later(_delay(gateway), _settle, came, answer, context=loop.outside)

    loop.call_later(
        _delay(gateway), lambda: gateway.role.process.spawn(serve()), context=loop.outside
    )
    with suppress(TimeoutError):
        return await asyncio.wait_for(came, PATIENCE)
    return None


def _settle(came: asyncio.Future[Answer], answer: Answer) -> None:
    if not came.done():
        came.set_result(answer)


def _delay(gateway: Gateway) -> float:
    loop = gateway.role.process.loop
    return loop.chance.random() * gateway.role.wire.weather.latency


async def _answered(gateway: Gateway, handler: Handler) -> Answer:
    try:
        told = await handler(gateway)
    except TurnlogError as error:
        said = convert_error(error)
        return Answer(said.status, {"code": said.code, "detail": said.detail})
    if isinstance(told, BaseModel):
        return Answer(200, told.model_dump(mode="json"))
    return Answer(told.status_code, json.loads(bytes(told.body)))


Frame = tuple[str, str, dict[str, Any]]
"""Cursor, name, data."""
Streamer = Callable[[Gateway], Awaitable[Response]]


async def streamed(gateway: Gateway, streamer: Streamer) -> AsyncGenerator[Frame | Answer]:
    """Read a stream of a gateway; a refusal is yielded as an answer, and silence ends the stream."""
    loop, process = gateway.role.process.loop, gateway.role.process
    heard: asyncio.Queue[Frame | Answer | None] = asyncio.Queue()
    at = loop.time()

    def send(item: Frame | Answer | None) -> None:
        nonlocal at
        at = max(at + 1e-6, loop.time() + _delay(gateway))
        loop.call_at(at, heard.put_nowait, item, context=loop.outside)

    async def serve() -> None:
        try:
            response = await streamer(gateway)
        except TurnlogError as error:
            said = convert_error(error)
            return send(Answer(said.status, {"code": said.code, "detail": said.detail}))
        if not isinstance(response, SseResponse):
            return send(Answer(response.status_code))
        with suppress(TurnlogError):
            async for frame in response.frames:
                send(_read(frame))
        return send(None)

    serving = process.spawn(serve())
    try:
        while (item := await asyncio.wait_for(heard.get(), PATIENCE * 2)) is not None:
            yield item
    except TimeoutError:
        return
    finally:
        loop.call_soon(serving.cancel, context=process.context)


def _read(frame: bytes) -> Frame:
    fields = dict(line.split(": ", 1) for line in frame.decode().strip().split("\n"))
    return fields["id"], fields["event"], json.loads(fields["data"])
