"""Streams of stored events over real HTTP, of one session and of all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.services.gateway.streaming.sse_client import (
    ReceivedEvent,
    StreamingResponse,
    open_stream,
)
from tests.services.gateway.streaming.stream_session import (
    StreamedSession,
    build_stream_gateway,
    open_streamed_session,
    serve_app,
)

SESSION = "/v1/sessions/s/events"

ALL = "/v1/events"


@pytest_asyncio.fixture(params=["memory", "nats"])
async def stage(
    request: pytest.FixtureRequest, fresh_tenant: str, nats_url: str
) -> AsyncIterator[StreamedSession]:
    async with open_streamed_session(
        fresh_tenant, nats_url if request.param == "nats" else None
    ) as stage:
        yield stage


async def run_conversation(stage: StreamedSession, turns: int) -> None:
    for turn in range(1, turns + 1):
        await stage.submit_turn(f"Question {turn}")
        attempt = await stage.claim_turn(turn)
        await stage.publish_text(attempt, f"Answer {turn}")
        await stage.complete_turn(attempt)


async def take_events(answer: StreamingResponse, count: int) -> list[ReceivedEvent]:
    """Take `count` events, then close the connection."""
    received: list[ReceivedEvent] = []
    async for event in answer.iterate_events():
        received.append(event)
        if len(received) == count:
            return received
    raise AssertionError(f"the stream ended after {len(received)}")


async def list_stored_events(stage: StreamedSession) -> list[str]:
    events = await stage.build_command_handler().load_events(stage.tenant, stage.session)
    return [event.stored.decode() for event in events]


async def test_stream_sends_stored_events_before_live_ones(stage: StreamedSession) -> None:
    await run_conversation(stage, 1)
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, SESSION) as answer,
    ):
        events = answer.iterate_events()
        past = [await anext(events) for _ in range(4)]
        await stage.submit_turn("And now?")
        live = await anext(events)
    assert [event.id for event in (*past, live)] == ["1", "2", "3", "4", "5"]
    assert [event.name for event in past][:3] == [
        "session-opened",
        "turn-submitted",
        "attempt-started",
    ]
    assert live.name == "turn-submitted"
    assert live.json["data"]["text"] == {"text": "And now?"}


async def test_stream_sends_the_stored_bytes_of_events(stage: StreamedSession) -> None:
    await run_conversation(stage, 1)
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, SESSION) as answer,
    ):
        assert [event.data for event in await take_events(answer, 4)] == await list_stored_events(
            stage
        )


@pytest.mark.parametrize("path", [SESSION, ALL])
async def test_stream_filter_sends_only_the_requested_event_types(
    stage: StreamedSession, path: str
) -> None:
    await run_conversation(stage, 2)
    url = f"{path}?types=turn-submitted,turn-completed"
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, url) as answer,
    ):
        names = [event.name for event in await take_events(answer, 4)]
    assert names == ["turn-submitted", "turn-completed"] * 2


@pytest.mark.parametrize("path", [SESSION, ALL])
async def test_last_event_id_overrides_the_after_parameter(
    stage: StreamedSession, path: str
) -> None:
    await run_conversation(stage, 1)
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        async with open_stream(port, path) as answer:
            second, third = (await take_events(answer, 3))[1:]
        async with open_stream(port, f"{path}?after={second.id}") as answer:
            assert (await take_events(answer, 1)) == [third]
        async with open_stream(port, f"{path}?after=0", last_id=second.id) as answer:
            assert (await take_events(answer, 1)) == [third]


@pytest.mark.parametrize("path", [SESSION, ALL])
@pytest.mark.parametrize("seed", range(3))
async def test_no_event_is_lost_or_repeated_over_random_disconnects(
    stage: StreamedSession, path: str, seed: int
) -> None:
    cuts = random.Random(seed)  # noqa: S311 -- to be repeated
    received: list[ReceivedEvent] = []
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as one,
        serve_app(build_stream_gateway(stage.build_dependencies())) as other,
    ):
        conversation = asyncio.create_task(run_conversation(stage, 6))
        while len(received) < 19:
            last_id = received[-1].id if received else None
            async with open_stream(cuts.choice([one, other]), path, last_id=last_id) as answer:
                received += await take_events(answer, min(cuts.randrange(1, 6), 19 - len(received)))
        await conversation
    assert [event.data for event in received] == await list_stored_events(stage)


@pytest.mark.parametrize("path", [SESSION, ALL])
@pytest.mark.parametrize("last_id", ["nonsense", "-1", "01", "1.1.5", "99999999"])
async def test_invalid_last_event_id_is_refused(
    stage: StreamedSession, path: str, last_id: str
) -> None:
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, path, last_id=last_id) as answer,
    ):
        assert answer.status == 400


async def test_event_id_of_another_tenant_is_refused(stage: StreamedSession) -> None:
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        async with open_stream(port, ALL) as answer:
            (opened,) = await take_events(answer, 1)
        stranger = StreamedSession(
            log=stage.log,
            blobs=stage.blobs,
            snapshots=stage.snapshots,
            tokens=stage.tokens,
            tenant="stranger",
        )
        async with (
            serve_app(build_stream_gateway(stranger.build_dependencies())) as other_port,
            open_stream(other_port, ALL, last_id=opened.id) as answer,
        ):
            assert answer.status == 400


async def test_event_stream_of_a_missing_session_returns_404(stage: StreamedSession) -> None:
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, "/v1/sessions/none/events") as answer,
    ):
        assert answer.status == 404


async def test_events_of_all_sessions_are_sent_in_one_stream(stage: StreamedSession) -> None:
    second = StreamedSession(
        log=stage.log,
        blobs=stage.blobs,
        snapshots=stage.snapshots,
        tokens=stage.tokens,
        tenant=stage.tenant,
        session="second",
    )
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, ALL) as answer,
    ):
        await second.open_session()
        await stage.submit_turn()
        events = [(event.json["subject"], event.name) for event in await take_events(answer, 3)]
    assert events == [
        ("s", "session-opened"),
        ("second", "session-opened"),
        ("s", "turn-submitted"),
    ]
