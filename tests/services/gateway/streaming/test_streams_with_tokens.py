"""Streams of events with the replies between them, over real HTTP, of one session and of all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from tests.services.gateway.streaming.sse_client import ReceivedEvent, open_stream
from tests.services.gateway.streaming.stream_session import (
    StreamedSession,
    build_stream_gateway,
    open_streamed_session,
    serve_app,
)
from tests.support.sessions.published_schemas import list_schema_faults

SESSION = "/v1/sessions/s/events?tokens=true"

ALL = "/v1/events?tokens=true"

PIECES = tuple(f"piece {number}, " for number in range(6))


@pytest_asyncio.fixture(params=["memory", "nats"])
async def stage(
    request: pytest.FixtureRequest, fresh_tenant: str, nats_url: str
) -> AsyncIterator[StreamedSession]:
    async with open_streamed_session(
        fresh_tenant, nats_url if request.param == "nats" else None
    ) as stage:
        yield stage


async def answer_turn(stage: StreamedSession, turn: int) -> None:
    """Submit a turn, and answer it in pieces that readers can keep up with."""
    await stage.submit_turn(f"Question {turn}")
    attempt = await stage.claim_turn(turn)
    for piece in PIECES:
        await stage.publish_text(attempt, piece)
        await asyncio.sleep(0.01)
    await stage.complete_turn(attempt)


@dataclass
class TokenReader:
    """Reads a stream up to the end of a turn."""

    port: int
    path: str
    turn: int = 1
    last_id: str | None = None
    received: list[ReceivedEvent] = field(default_factory=list[ReceivedEvent])
    has_token: asyncio.Event = field(default_factory=asyncio.Event)

    async def read_turn(self) -> list[ReceivedEvent]:
        async with open_stream(self.port, self.path, last_id=self.last_id) as answer:
            async for event in answer.iterate_events():
                self.received.append(event)
                if event.name == "token":
                    self.has_token.set()
                elif event.name == "turn-completed" and event.json["data"]["turn"] == self.turn:
                    return self.received
        raise AssertionError(f"the stream ended after {len(self.received)}")


async def publish_until_read(stage: StreamedSession, reader: TokenReader) -> None:
    """Answer turn 1, until the reader gets tokens: a stream of all has only those from then on."""
    await stage.submit_turn()
    attempt = await stage.claim_turn()
    while not reader.has_token.is_set():
        await stage.publish_text(attempt, "more ")
        await asyncio.sleep(0.01)
    await stage.complete_turn(attempt)


def join_tokens(received: Sequence[ReceivedEvent], turn: int = 1) -> str:
    """Put each piece where its offset says, as the docs tell a reader."""
    text = ""
    for event in received:
        if event.name == "attempt-reset" and event.json["turn"] == turn:
            text = ""
        elif event.name == "token" and event.json["turn"] == turn:
            assert event.json["offset"] <= len(text)
            text = text[: event.json["offset"]] + event.json["text"]
    return text


@pytest.mark.parametrize("path", [SESSION, ALL])
async def test_reply_comes_between_the_events_of_its_turn(
    stage: StreamedSession, path: str
) -> None:
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        reader = TokenReader(port, path, turn=2)
        async with asyncio.TaskGroup() as group:
            group.create_task(reader.read_turn())
            await publish_until_read(stage, reader)
            await answer_turn(stage, 2)
    assert join_tokens(reader.received, 2) == "".join(PIECES)
    assert reader.received[-1].json["data"]["text"] == {"text": "".join(PIECES)}
    for event in reader.received:
        sent = {"event": event.name, "data": event.json} | ({"id": event.id} if event.id else {})
        assert list_schema_faults("EventOrTokenEvent", sent) == []


async def test_reply_and_events_of_a_session_come_once_over_random_disconnects(
    stage: StreamedSession,
) -> None:
    cuts = random.Random(7)  # noqa: S311 -- to be repeated
    received: list[ReceivedEvent] = []
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as one,
        serve_app(build_stream_gateway(stage.build_dependencies())) as other,
    ):
        writing = asyncio.create_task(answer_turn(stage, 1))
        while not received or received[-1].name != "turn-completed":
            last_id = received[-1].id if received else None
            left = cuts.randrange(1, 4)
            async with open_stream(cuts.choice([one, other]), SESSION, last_id=last_id) as answer:
                async for event in answer.iterate_events():
                    received.append(event)
                    left -= 1
                    if not left or event.name == "turn-completed":
                        break
        await writing
    assert "".join(each.json["text"] for each in received if each.name == "token") == "".join(
        PIECES
    )
    stored = await stage.build_command_handler().load_events(stage.tenant, stage.session)
    events = [each.data for each in received if each.name != "token"]
    assert events == [each.stored.decode() for each in stored]


async def test_plain_sequence_within_a_turn_gets_its_reply_from_the_beginning(
    stage: StreamedSession,
) -> None:
    await stage.submit_turn()
    attempt = await stage.claim_turn()
    await stage.publish_text(attempt, "from the beginning ")
    state = await stage.build_command_handler().require_state(stage.tenant, stage.session)
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        reader = TokenReader(port, f"{SESSION}&after={state.head.sequence}")
        async with asyncio.TaskGroup() as group:
            group.create_task(reader.read_turn())
            await reader.has_token.wait()
            await stage.publish_text(attempt, "to the end")
            await stage.complete_turn(attempt)
    assert join_tokens(reader.received) == "from the beginning to the end"


@pytest.mark.parametrize("path", [SESSION, ALL])
async def test_attempt_that_begins_again_makes_earlier_text_void(
    stage: StreamedSession, path: str
) -> None:
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        reader = TokenReader(port, path, turn=2)
        async with asyncio.TaskGroup() as group:
            group.create_task(reader.read_turn())
            await publish_until_read(stage, reader)
            await stage.submit_turn()
            await stage.publish_text(await stage.claim_turn(2), "lost")
            again = await stage.claim_turn(2)
            await stage.publish_text(again, "kept")
            await stage.complete_turn(again)
    assert join_tokens(reader.received, 2) == "kept"


async def test_cursor_within_a_reply_resumes_a_stream_without_tokens(
    stage: StreamedSession,
) -> None:
    await answer_turn(stage, 1)
    plain, _, _ = SESSION.partition("?")
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        received = await TokenReader(port, plain, last_id="2.1.1.5").read_turn()
    assert [each.id for each in received] == ["3", "4"]


@pytest.mark.parametrize(
    ("path", "last_id"),
    [(SESSION, "2.9.1.0"), (SESSION, "99.1.1.0"), (SESSION, "2.1.1"), (ALL, "2.1.1.0")],
)
async def test_cursor_that_no_stream_has_sent_is_refused(
    stage: StreamedSession, path: str, last_id: str
) -> None:
    await stage.submit_turn()
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, path, last_id=last_id) as answer,
    ):
        assert answer.status == 400
