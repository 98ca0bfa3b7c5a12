"""A local HTTP server that speaks the OpenAI chat protocol, failures included.

A test queues the behaviours for the next requests (`queue_behaviours`), sets `OPENAI_API_BASE` to
`url`, and reads the requests afterwards, byte for byte. Each connection serves one request, so that
a closed connection belongs to one exchange. `python -m tests.support.servers.openai_server` serves
one fixed answer to processes that no test controls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, assert_never, cast

from tests.support.servers.model_behaviours import (
    AgentAnswer,
    EchoAnswer,
    ModelAnswer,
    ModelBehaviour,
    ModelRefusal,
    ModelSilence,
    RawFrames,
    RawResponse,
    StreamDrop,
    StreamPause,
    StreamStep,
    StreamWait,
    build_completion,
    iterate_raw_steps,
    iterate_steps,
)

ChooseBehaviour = Callable[[dict[str, object]], ModelBehaviour | None]
"""Returns how a request body is answered, or None where the next of the queue answers it."""


@dataclass(frozen=True, slots=True)
class ModelExchange:
    """One request as it arrived."""

    raw: bytes
    headers: Mapping[str, str]
    path: str
    """With its query."""
    client_left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client closed the connection before the answer was complete."""

    @property
    def body(self) -> dict[str, object]:
        return cast("dict[str, object]", json.loads(self.raw))


class OpenAIServer:
    def __init__(self, otherwise: ModelBehaviour | None = None, port: int = 0) -> None:
        self.exchanges: list[ModelExchange] = []
        self.keeps_connections = False
        """Whether a connection serves a next request after a whole response."""
        self.connection_count = 0
        self._default_behaviour = otherwise or ModelAnswer()
        self.choose_behaviour: ChooseBehaviour | None = None
        """Chooses by the request body; None where the queue decides."""
        self._queue: deque[ModelBehaviour] = deque()
        self._port = port
        self._arrived = asyncio.Condition()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._start_connection, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """The value for `OPENAI_API_BASE`."""
        return f"{self.root}/v1"

    def queue_behaviours(self, *behaviours: ModelBehaviour) -> None:
        """Queue behaviours for the next requests; after them the default behaviour applies."""
        self._queue.extend(behaviours)

    def clear_exchanges(self) -> None:
        """Clear the recorded requests and the queued behaviours."""
        self.exchanges.clear()
        self._queue.clear()
        self.choose_behaviour = None

    async def wait_for_exchange(self, number: int) -> ModelExchange:
        """Wait for the request of that number, counted from 1, and return it."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.exchanges) >= number)
        return self.exchanges[number - 1]

    def _start_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        task = asyncio.create_task(self._handle_connection(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await self._serve_request(reader, writer)
            while self.keeps_connections:
                await self._serve_request(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        exchange = await _read_exchange(reader)
        async with self._arrived:
            self.exchanges.append(exchange)
            self._arrived.notify_all()
        chosen = self.choose_behaviour(exchange.body) if self.choose_behaviour else None
        queued = self._queue.popleft() if self._queue and chosen is None else None
        behaviour = chosen or queued or self._default_behaviour
        connection = "keep-alive" if self.keeps_connections else "close"
        answering = asyncio.create_task(_send_response(behaviour, exchange, writer, connection))
        leaving = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                exchange.client_left.set()
        finally:
            answering.cancel()
            leaving.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)


async def _read_exchange(reader: asyncio.StreamReader) -> ModelExchange:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = (line.partition(":") for line in head.split("\r\n")[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in lines}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return ModelExchange(raw, headers, path=head.split(" ", 2)[1])


async def _send_response(
    behaviour: ModelBehaviour,
    exchange: ModelExchange,
    writer: asyncio.StreamWriter,
    connection: str,
) -> None:
    if isinstance(behaviour, EchoAnswer | AgentAnswer):
        behaviour = behaviour.build_answer(exchange.body)
    match behaviour:
        case ModelSilence():
            await asyncio.Event().wait()
        case ModelRefusal():
            _send_json(writer, behaviour.status, behaviour.encode_body(), behaviour.headers)
        case RawResponse(status, headers, body):
            writer.write(_format_head(status, headers) + body)
            writer.close()
        case RawFrames():
            await _send_stream(iterate_raw_steps(behaviour), writer, connection)
        case ModelAnswer() if exchange.body.get("stream"):
            await _send_stream(_list_steps(behaviour, exchange), writer, connection)
        case ModelAnswer():
            completion = build_completion(behaviour, str(exchange.body["model"]))
            _send_json(writer, 200, json.dumps(completion).encode(), {})
        case _:
            assert_never(behaviour)


def _list_steps(answer: ModelAnswer, exchange: ModelExchange) -> Iterable[StreamStep]:
    options = cast("Mapping[str, object]", exchange.body.get("stream_options") or {})
    with_usage = options.get("include_usage") is True
    return iterate_steps(answer, str(exchange.body["model"]), with_usage=with_usage)


async def _send_stream(
    every: Iterable[StreamStep], writer: asyncio.StreamWriter, connection: str
) -> None:
    headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    writer.write(_format_head(200, headers, connection))
    for step in every:
        if isinstance(step, StreamDrop):
            return
        await _run_step(step, writer)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _run_step(step: bytes | StreamWait | StreamPause, writer: asyncio.StreamWriter) -> None:
    match step:
        case bytes():
            writer.write(b"%x\r\n%s\r\n" % (len(step), step))
            await writer.drain()
        case StreamPause(seconds):
            await asyncio.sleep(seconds)
        case StreamWait(gate):
            await (gate or asyncio.Event()).wait()
        case _:
            assert_never(step)


def _send_json(
    writer: asyncio.StreamWriter,
    status: int,
    raw: bytes,
    headers: Mapping[str, str],
) -> None:
    plain = {"content-type": "application/json", "content-length": str(len(raw))}
    writer.write(_format_head(status, {**plain, **headers}) + raw)


def _format_head(status: int, headers: Mapping[str, str], connection: str = "close") -> bytes:
    lines = [f"{name}: {value}" for name, value in {**headers, "connection": connection}.items()]
    return "\r\n".join([f"HTTP/1.1 {status} -", *lines, "", ""]).encode("latin-1")


async def serve_forever(reply: str, port: int, pace: float) -> None:
    words = tuple(word + " " for word in reply.split())
    async with OpenAIServer(ModelAnswer(tokens=words, pace=pace), port) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve one fixed answer; prints its base URL.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--reply", default="An answer.")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds between tokens")
    arguments = parser.parse_args()
    asyncio.run(serve_forever(arguments.reply, arguments.port, arguments.pace))


if __name__ == "__main__":
    main()
