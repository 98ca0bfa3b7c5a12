"""The least that the promises of a turn cost: `python -m benchmarks.floor FOLDER`.

One process beside a nats-server of its own. A turn is three stored messages: the question before
it is accepted, the call before it is made, the reply before `done`. Each waits for fsync, expects
the last sequence of its session, and carries the digest of the message before it. Ten pieces of a
reply travel over core NATS to a client's event stream, and rows of the turn go to SQLite. One
subscription reads the log and one the pieces; both are dispatched by session.

It has no blueprints, no cancelling, no redelivery, no leases, no retries, no idempotency keys, no
resume and no validation, and its model is a loop. What a turn of Turnlog costs above this is what
those cost. It serves the two routes that the benchmarks call, with the answers that they read.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import StreamConfig
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from benchmarks.support.random_prose import RandomProse
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

LOG_SUBJECTS: Final = "floor.log.>"
PIECE_SUBJECTS: Final = "floor.piece.*"
PIECES: Final = 10
CHARACTERS: Final = 350
"""Of a reply."""
WINDOW: Final = 10
"""Turns whose digests the record of a call lists, as a manifest lists the parts of a prompt."""

SSE_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
ROWS_SCHEMA: Final = """
PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
CREATE TABLE turns (session TEXT, turn INTEGER, question TEXT, reply TEXT, sequence INTEGER,
    PRIMARY KEY (session, turn));
CREATE TABLE calls (session TEXT, turn INTEGER, manifest TEXT, sequence INTEGER,
    PRIMARY KEY (session, turn));
"""


@dataclass(kw_only=True)
class FloorSession:
    """What the process keeps of a session."""

    sequence: int = 0
    """Stream sequence of its last stored message."""
    digest: str = ""
    """Of that message."""
    turn: int = 0
    contents: list[str] = field(default_factory=list[str])
    """Digests of its questions and replies."""
    stream: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue[bytes])
    """Frames for the client that waits for its turn."""

    def note_stored(self, sequence: int, payload: bytes) -> None:
        """Take a message as the last one; the subscription may deliver it before its ack."""
        if sequence > self.sequence:
            self.sequence, self.digest = sequence, hashlib.sha256(payload).hexdigest()


@dataclass(kw_only=True)
class FloorService:
    """The whole of it: HTTP, log, worker and rows."""

    nc: Client
    js: JetStreamContext
    rows: sqlite3.Connection
    sessions: dict[str, FloorSession] = field(default_factory=dict[str, FloorSession])
    waiting_rows: list[tuple[str, Sequence[object]]] = field(
        default_factory=list[tuple[str, Sequence[object]]]
    )
    rows_due: asyncio.Event = field(default_factory=asyncio.Event)
    replies: itertools.cycle[str] = field(default_factory=lambda: itertools.cycle(_build_replies()))
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def append(self, name: str, kind: str, body: Mapping[str, JsonValue]) -> None:
        """Store a message of a session, after the one that the process saw last."""
        session = self.sessions[name]
        payload = to_json({"type": kind, "session": name, "previous": session.digest, **body})
        expected = {
            "Nats-Expected-Last-Subject-Sequence": str(session.sequence),
            "Nats-Expected-Last-Subject-Sequence-Subject": f"floor.log.{name}.*",
        }
        ack = await self.js.publish(f"floor.log.{name}.{kind}", payload, headers=expected)
        session.note_stored(ack.seq, payload)

    async def handle_message(self, message: Msg) -> None:
        """Dispatch a stored message to the worker, the rows and the client."""
        _, _, name, kind = message.subject.split(".")
        body = from_json(message.data)
        sequence = message.metadata.sequence.stream
        self.sessions[name].note_stored(sequence, message.data)
        if kind == "submitted":
            task = asyncio.create_task(self.answer(name, body["turn"], body["text"]))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            row = (name, body["turn"], body["text"], None, sequence)
            self.waiting_rows.append(("INSERT INTO turns VALUES (?, ?, ?, ?, ?)", row))
        elif kind == "called":
            call = (name, body["turn"], to_json(body["manifest"]).decode(), sequence)
            self.waiting_rows.append(("INSERT INTO calls VALUES (?, ?, ?, ?)", call))
        else:
            done = (body["text"], sequence, name, body["turn"])
            update = "UPDATE turns SET reply = ?, sequence = ? WHERE session = ? AND turn = ?"
            self.waiting_rows.append((update, done))
            frame = b"event: done\ndata: %b\n\n" % message.data
            self.sessions[name].stream.put_nowait(frame)
        self.rows_due.set()

    async def handle_piece(self, message: Msg) -> None:
        """Dispatch a piece of a reply to the client."""
        name = message.subject.rpartition(".")[2]
        self.sessions[name].stream.put_nowait(b"event: token\ndata: %b\n\n" % message.data)

    async def answer(self, name: str, turn: int, text: str) -> None:
        """Record a call, make it, record its reply."""
        session = self.sessions[name]
        session.contents.append(_digest(text))
        manifest: list[JsonValue] = [
            {"part": "turn", "digest": digest, "tokens": 90}
            for digest in session.contents[-2 * WINDOW :]
        ]
        await self.append(name, "called", {"turn": turn, "model": "floor", "manifest": manifest})
        reply = next(self.replies)
        size = -(-len(reply) // PIECES)
        for index in range(PIECES):
            piece = {"turn": turn, "index": index, "text": reply[index * size :][:size]}
            await self.nc.publish(f"floor.piece.{name}", to_json(piece))
            await asyncio.sleep(0)  # A model's pieces come one at a time.
        session.contents.append(_digest(reply))
        usage: JsonValue = {"input": 90 * len(manifest), "output": 90}
        await self.append(name, "completed", {"turn": turn, "text": reply, "usage": usage})

    async def write_rows(self) -> None:
        """Write what waits, one transaction at a time."""
        while True:
            await self.rows_due.wait()
            self.rows_due.clear()
            waiting, self.waiting_rows = self.waiting_rows, []
            await asyncio.to_thread(self._commit, waiting)

    def _commit(self, waiting: Sequence[tuple[str, Sequence[object]]]) -> None:
        with self.rows:
            for statement, values in waiting:
                self.rows.execute(statement, values)

    async def serve_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one connection, request by request."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = head.lower().partition("content-length:")[2].partition("\r\n")[0]
                body = from_json(await reader.readexactly(int(length or 0)))
                path = head.split(" ", 2)[1]
                if path == "/v1/sessions":
                    self._open_session(writer)
                else:
                    await self._run_turn(path.split("/")[3], str(body["text"]), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client has disconnected.
        finally:
            writer.close()

    def _open_session(self, writer: asyncio.StreamWriter) -> None:
        name = f"s{len(self.sessions)}"
        self.sessions[name] = FloorSession()
        body = to_json({"session": name})
        writer.write(b"HTTP/1.1 201 Created\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    async def _run_turn(self, name: str, text: str, writer: asyncio.StreamWriter) -> None:
        session = self.sessions[name]
        session.turn += 1
        session.stream = asyncio.Queue()
        await self.append(name, "submitted", {"turn": session.turn, "text": text})
        writer.write(SSE_HEAD)
        frame = b""
        while not frame.startswith(b"event: done"):
            frame = await session.stream.get()
            writer.write(b"%x\r\n%b\r\n" % (len(frame), frame))
            await writer.drain()
        writer.write(b"0\r\n\r\n")


def _build_replies() -> Sequence[str]:
    prose = RandomProse(2)
    return [prose.generate_text(CHARACTERS) for _ in range(40)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def serve(folder: Path) -> None:
    """Serve until stopped; print the address on a line of its own."""
    async with await NatsServer.start(NatsConfig(data_dir=folder / "nats")) as server:
        nc = await nats.connect(server.url)
        js = nc.jetstream()
        await js.add_stream(StreamConfig(name="FLOOR", subjects=[LOG_SUBJECTS]))
        rows = sqlite3.connect(folder / "rows.db", check_same_thread=False)
        rows.executescript(ROWS_SCHEMA)
        service = FloorService(nc=nc, js=js, rows=rows)
        await js.subscribe(LOG_SUBJECTS, cb=service.handle_message, ordered_consumer=True)
        await nc.subscribe(PIECE_SUBJECTS, cb=service.handle_piece)
        listener = await asyncio.start_server(service.serve_client, "127.0.0.1", 0)
        print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
        await service.write_rows()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
