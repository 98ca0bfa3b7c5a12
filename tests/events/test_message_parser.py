"""The message parser gives what nats-py would give, however the bytes are split."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client as NatsClient
from nats.protocol.parser import Parser

from turnlog.events.jetstream.subscriptions import RawFrame, RawParser, parse_headers

TAKEN = 7

OTHER = 3

words = st.sampled_from([b"a", b"session.t.s.turn", b"$JS.ACK.S.c.1.2.3.4.5", b"MSG", b"x" * 300])

payloads = st.binary(max_size=40) | st.sampled_from([b"\r\n", b"MSG a 7 1\r\nx\r\n", b"y" * 5_000])

headers = st.none() | st.sampled_from([b"NATS/1.0\r\na: b\r\n\r\n", b"NATS/1.0 100 Idle\r\n\r\n"])


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    sid: int
    subject: bytes
    reply: bytes
    headers: bytes | None
    payload: bytes

    @property
    def wire(self) -> bytes:
        head, body = self.headers or b"", self.payload
        sizes = [len(head), len(head) + len(body)] if self.headers else [len(body)]
        verb = b"HMSG" if self.headers else b"MSG"
        line = [verb, self.subject, b"%d" % self.sid, self.reply, *(b"%d" % size for size in sizes)]
        return b" ".join(word for word in line if word) + b"\r\n" + head + body + b"\r\n"


@dataclass(repr=False)
class Client:
    """Records what nats-py's parser passes to its client."""

    heard: list[SentMessage | str] = field(default_factory=list[SentMessage | str])

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None
    ) -> None:
        self.heard.append(
            SentMessage(sid=sid, subject=subject, reply=reply, headers=headers, payload=payload)
        )

    async def _process_ping(self) -> None:
        self.heard.append("ping")

    async def _process_pong(self) -> None:
        self.heard.append("pong")


sent = st.builds(
    SentMessage,
    sid=st.sampled_from([TAKEN, OTHER]),
    subject=words,
    reply=st.just(b"") | words,
    headers=headers,
    payload=payloads,
)

sendings = st.lists(sent | st.sampled_from(["ping", "pong"]), max_size=12)


def encode_wire(sending: list[SentMessage | str]) -> bytes:
    return b"".join(
        each.wire if isinstance(each, SentMessage) else f"{each.upper()}\r\n".encode()
        for each in sending
    )


def parse_stream(stream: bytes, cuts: list[int], frames: RawParser | Parser) -> None:
    async def parse() -> None:
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            await frames.parse(stream[start:end])

    asyncio.run(parse())


@given(sendings, st.data())
def test_messages_arrive_complete_and_in_order_however_the_bytes_are_split(
    sending: list[SentMessage | str], data: st.DataObject
) -> None:
    stream = encode_wire(sending)
    places = st.lists(st.integers(0, len(stream)), max_size=20)
    client, taken = Client(), list[RawFrame]()
    frames = RawParser(Parser(client), {b"%d" % TAKEN: taken.append})
    parse_stream(stream, sorted(data.draw(places)), frames)

    own_messages = [s for s in sending if isinstance(s, SentMessage) and s.sid == TAKEN]
    assert taken == [
        RawFrame(s.subject, s.reply, s.headers or b"", s.payload) for s in own_messages
    ]
    assert client.heard == [s for s in sending if s not in own_messages]
    assert not frames.partial_message


@given(sendings, st.data())
def test_message_begun_by_nats_py_before_the_first_handler_is_completed_by_it(
    sending: list[SentMessage | str], data: st.DataObject
) -> None:
    begun = data.draw(sent.filter(lambda each: each.sid == OTHER))
    at = data.draw(st.integers(0, len(begun.wire)))
    stream = begun.wire[at:] + encode_wire(sending)
    places = st.lists(st.integers(0, len(stream)), max_size=5)
    client, taken = Client(), list[RawFrame]()
    frames = RawParser(Parser(client))
    parse_stream(begun.wire[:at], [], frames)
    frames.handlers[b"%d" % TAKEN] = taken.append
    parse_stream(stream, sorted(data.draw(places)), frames)

    own_messages = [s for s in sending if isinstance(s, SentMessage) and s.sid == TAKEN]
    assert taken == [
        RawFrame(s.subject, s.reply, s.headers or b"", s.payload) for s in own_messages
    ]
    assert client.heard == [begun, *(s for s in sending if s not in own_messages)]


def test_partial_message_of_a_broken_connection_is_discarded() -> None:
    taken = list[RawFrame]()
    frames = RawParser(Parser(Client()), {b"7": taken.append})
    parse_stream(b"MSG a 7 10\r\nabc", [], frames)
    frames.reset()
    parse_stream(b"MSG b 7 r 3\r\nabc\r\n", [], frames)
    assert taken == [RawFrame(b"b", b"r", b"", b"abc")]


def test_parser_without_handlers_passes_everything_to_nats_py() -> None:
    client = Client()
    parse_stream(b"PING\r\nMSG a 3 1\r\nx\r\n", [3, 9], RawParser(Parser(client)))
    assert client.heard == [
        "ping",
        SentMessage(sid=3, subject=b"a", reply=b"", headers=None, payload=b"x"),
    ]


@pytest.mark.parametrize(
    "headers",
    [
        b"NATS/1.0\r\nNats-Subject: session.t.s.turn\r\nNats-Sequence: 7\r\n\r\n",
        b"NATS/1.0\r\nNats-Time-Stamp: 2026-11-22T17:00:00.1Z\r\nEmpty: \r\nTight:x\r\n\r\n",
        b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 9\r\nNats-Last-Stream: 4\r\n\r\n",
        b"NATS/1.0 100 FlowControl Request\r\n\r\n",
        b"NATS/1.0 404 No Messages\r\n\r\n",
        b"NATS/1.0 503\r\n\r\n",
    ],
)
async def test_headers_are_parsed_as_nats_py_parses_them(headers: bytes) -> None:
    client: Any = NatsClient()
    assert parse_headers(headers) == await client._process_headers(headers)
