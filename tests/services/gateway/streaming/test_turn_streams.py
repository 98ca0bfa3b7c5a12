"""Turn streams over real HTTP, on a log in memory and on a real nats-server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from tests.services.gateway.streaming.sse_client import ResumingWatcher, open_stream
from tests.services.gateway.streaming.stream_session import (
    StreamedSession,
    build_stream_gateway,
    open_streamed_session,
    serve_app,
)
from turnlog.events.tokens import Token
from turnlog.projections.session.commands import AttemptRef

STREAM = "/v1/sessions/s/turns/1/stream"

PIECES = ["The ", "log ", "is ", "the truth", "\n", "ünïcödé", "日本", "🙂🙃", " code points. "]


@pytest_asyncio.fixture(params=["memory", "nats"])
async def stage(
    request: pytest.FixtureRequest, fresh_tenant: str, nats_url: str
) -> AsyncIterator[StreamedSession]:
    async with open_streamed_session(
        fresh_tenant, nats_url if request.param == "nats" else None
    ) as stage:
        yield stage


async def publish_attempts(stage: StreamedSession, script: random.Random) -> str:
    """Answer turn 1 in one to three attempts at random intervals."""
    attempt = await stage.claim_turn()
    for again in range(script.randrange(1, 4)):
        attempt = await stage.claim_turn() if again else attempt
        for _ in range(script.randrange(40, 80)):
            await stage.publish_text(attempt, script.choice(PIECES))
            await asyncio.sleep(script.choice([0, 0, 0, 0.003]))
    return await stage.complete_turn(attempt)


@pytest.mark.parametrize("seed", range(6))
async def test_tokens_received_equal_the_recorded_reply_over_random_disconnects(
    stage: StreamedSession, seed: int
) -> None:
    script, cuts = random.Random(seed), random.Random(-1 - seed)  # noqa: S311 -- to be repeated
    await stage.submit_turn()
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as one,
        serve_app(build_stream_gateway(stage.build_dependencies())) as other,
        asyncio.TaskGroup() as tasks,
    ):
        saying = tasks.create_task(publish_attempts(stage, script))
        watcher = ResumingWatcher(port=one, path=STREAM)
        while watcher.end_event is None:
            # Another gateway each time, as after a restart: none remembers a watcher
            watcher.port = cuts.choice([one, other])
            await watcher.watch_connection(cuts.choice([10, 100, 400, 2000]))
        assert watcher.text == await saying
        assert watcher.end_event.name == "done"


async def watch_first_events(port: int, count: int) -> ResumingWatcher:
    """Watch turn 1 until `count` events have arrived."""
    watcher = ResumingWatcher(port=port, path=STREAM)
    async with open_stream(port, STREAM) as answer:
        async for event in answer.iterate_events():
            watcher.apply_event(event)
            if len(watcher.names) == count:
                return watcher
    raise AssertionError(f"the stream ended after {watcher.names}")


async def test_stream_of_a_completed_turn_sends_the_whole_reply(stage: StreamedSession) -> None:
    await stage.submit_turn()
    attempt = await stage.claim_turn()
    await stage.publish_text(attempt, "All of it.")
    await stage.complete_turn(attempt)
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, STREAM) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        assert answer.headers["x-accel-buffering"] == "no"
        received = await answer.read_all()
    assert [(event.id, event.name, event.json) for event in received] == [
        ("1.1.10", "token", {"text": "All of it."}),
        ("1.1.10.done", "done", {"finish": "stop", "turn": 1, "sequence": 4}),
    ]


async def test_watcher_makes_progress_with_every_short_connection(
    stage: StreamedSession,
) -> None:
    await stage.submit_turn()
    attempt = await stage.claim_turn()
    await stage.publish_text(attempt, "Said in one piece, for once. " * 100)
    reply = await stage.complete_turn(attempt)
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        watcher = ResumingWatcher(port=port, path=STREAM)
        while watcher.end_event is None:
            before = watcher.last_id
            await watcher.watch_connection(1_000)
            assert watcher.last_id != before
    assert watcher.text == reply


async def test_each_token_is_sent_as_it_is_published(stage: StreamedSession) -> None:
    await stage.submit_turn()
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, STREAM) as answer,
    ):
        attempt = await stage.claim_turn()
        events = answer.iterate_events()
        for piece in ("Hel", "lo", "!"):
            await stage.publish_text(attempt, piece)
            assert (await anext(events)).json == {"text": piece}
        await stage.complete_turn(attempt)
        assert (await anext(events)).name == "done"


async def test_watcher_of_a_queued_turn_gets_its_reply_when_it_runs(stage: StreamedSession) -> None:
    await stage.submit_turn()
    await stage.submit_turn("And then?")
    path = "/v1/sessions/s/turns/2/stream"
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        watcher = ResumingWatcher(port=port, path=path)
        watching = asyncio.create_task(watcher.watch_connection())
        before = await stage.claim_turn(1)
        await stage.publish_text(before, "First.")
        await stage.complete_turn(before)
        attempt = await stage.claim_turn(2)
        await stage.publish_text(attempt, "Second.")
        await stage.complete_turn(attempt)
        await watching
    assert watcher.text == "Second."


async def test_superseded_attempt_sends_a_reset_and_its_late_tokens_are_ignored(
    stage: StreamedSession,
) -> None:
    await stage.submit_turn()
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        given_up = await stage.claim_turn()
        await stage.publish_text(given_up, "half an ans")
        watcher = await watch_first_events(port, 1)
        assert watcher.text == "half an ans"
        attempt = await stage.claim_turn()
        await stage.publish_text(given_up, "zombie")
        stage.partial_replies[1] = ""
        await stage.publish_text(attempt, "A whole answer.")
        await stage.complete_turn(attempt)
        await watcher.watch_connection()
    assert watcher.names == ["token", "attempt-reset", "token", "done"]
    assert watcher.text == "A whole answer."


async def test_lost_tokens_are_filled_in_from_the_log(stage: StreamedSession) -> None:
    await stage.submit_turn()
    attempt = await stage.claim_turn()
    await stage.publish_text(attempt, "What was ")
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        watcher = await watch_first_events(port, 1)
        stage.partial_replies[1] += "said on the way "
        await stage.publish_text(attempt, "and at last.")
        watching = asyncio.create_task(watcher.watch_connection())
        await stage.complete_turn(attempt)
        await watching
    assert watcher.text == "What was said on the way and at last."
    assert watcher.end_event is not None


FORGED = {
    "text of the same length": Token(call="1.1", attempt=1, offset=4, text="is a lie!"),
    "less text": Token(call="1.1", attempt=1, offset=4, text="lies"),
    "more text": Token(call="1.1", attempt=1, offset=4, text="is a lie, " * 10),
    "an attempt that there never was": Token(call="1.1", attempt=99, offset=0, text="The lie"),
    "the right text of such an attempt": Token(call="1.1", attempt=99, offset=0, text="The log"),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
async def test_forged_tokens_are_replaced_by_the_recorded_reply(
    stage: StreamedSession, forged: Token
) -> None:
    watcher = await watch_turn_with_forged_token(stage, forged, stage.complete_turn)
    assert watcher.text == "The log tells."
    assert watcher.names[-3:] == ["attempt-reset", "token", "done"]


@pytest.mark.parametrize("end", ["completed", "completed before", "failed"])
async def test_token_forged_before_a_reconnect_is_replaced_by_the_recorded_reply(
    stage: StreamedSession, end: str
) -> None:
    await stage.submit_turn()
    end_turn = stage.fail_turn if end == "failed" else stage.complete_turn
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        attempt = await stage.claim_turn()
        await stage.publish_text(attempt, "The ")
        forged = FORGED["text of the same length"]
        await stage.tokens.publish_token(stage.tenant, stage.session, 1, forged)
        watcher = await watch_first_events(port, 2)
        assert watcher.text == "The is a lie!"
        await stage.publish_text(attempt, "log tells.")
        if end == "completed before":
            await end_turn(attempt)
        watching = asyncio.create_task(watcher.watch_connection())
        if end != "completed before":
            await end_turn(attempt)
        await watching
    assert watcher.text == "The log tells."
    assert watcher.names.count("attempt-reset") == 1


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
async def test_forged_tokens_are_replaced_by_the_recorded_text_after_a_failure(
    stage: StreamedSession, forged: Token
) -> None:
    watcher = await watch_turn_with_forged_token(stage, forged, stage.fail_turn)
    assert watcher.text == "The log tells."
    assert watcher.names[-3:] == ["attempt-reset", "token", "failed"]


async def watch_turn_with_forged_token(
    stage: StreamedSession, forged: Token, end_turn: Callable[[AttemptRef], Awaitable[object]]
) -> ResumingWatcher:
    """Answer turn 1 while somebody else publishes a token in the middle of the reply."""
    await stage.submit_turn()
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        watcher = ResumingWatcher(port=port, path=STREAM)
        async with open_stream(port, STREAM) as answer:
            attempt = await stage.claim_turn()
            await stage.publish_text(attempt, "The ")
            async for event in answer.iterate_events():
                watcher.apply_event(event)
                if watcher.names == ["token"]:
                    await stage.tokens.publish_token(stage.tenant, stage.session, 1, forged)
                elif forged.text.startswith(watcher.text.removeprefix("The ")):
                    await stage.publish_text(attempt, "log tells.")
                    await end_turn(attempt)
    return watcher


async def test_failed_turn_sends_its_code_and_partial_text(stage: StreamedSession) -> None:
    await stage.submit_turn()
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        watcher = ResumingWatcher(port=port, path=STREAM)
        watching = asyncio.create_task(watcher.watch_connection())
        attempt = await stage.claim_turn()
        await stage.publish_text(attempt, "half")
        await stage.fail_turn(attempt, "rate_limited")
        await watching
    assert watcher.end_event is not None
    assert watcher.end_event.name == "failed"
    assert watcher.end_event.json == {"code": "rate_limited", "retryable": True, "partial": "half"}


async def test_a_cancelled_turn_ends_the_stream(stage: StreamedSession) -> None:
    await stage.submit_turn()
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        attempt = await stage.claim_turn()
        await stage.publish_text(attempt, "never mi")
        watcher = await watch_first_events(port, 1)
        watching = asyncio.create_task(watcher.watch_connection())
        await stage.cancel_turn()
        await watching
    assert watcher.end_event is not None
    assert watcher.end_event.name == "cancelled"
    assert watcher.end_event.json == {"reason": "cancelled"}


async def test_redacted_reply_is_not_sent_again(stage: StreamedSession) -> None:
    await stage.submit_turn()
    attempt = await stage.claim_turn()
    await stage.publish_text(attempt, "a secret")
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        early = await watch_first_events(port, 1)
        await stage.complete_turn(attempt)
        late = ResumingWatcher(port=port, path=STREAM)
        await late.watch_connection()
        await stage.redact_reply()
        await early.watch_connection()
        assert early.end_event is not None
        assert early.end_event.json == {"reason": "it names a person", "replacement": "(withheld)"}
        async with open_stream(port, STREAM) as answer:
            assert [event.name for event in await answer.read_all()] == ["redact"]
        async with open_stream(port, STREAM, last_id=late.last_id) as answer:
            assert [event.name for event in await answer.read_all()] == ["redact"]


@pytest.mark.parametrize("end", ["done", "redact", "failed", "cancelled"])
async def test_watcher_that_received_the_end_gets_204(stage: StreamedSession, end: str) -> None:
    await stage.submit_turn()
    attempt = await stage.claim_turn()
    match end:
        case "failed":
            await stage.fail_turn(attempt)
        case "cancelled":
            await stage.cancel_turn()
        case _:
            await stage.complete_turn(attempt)
    if end == "redact":
        await stage.redact_reply()
    async with serve_app(build_stream_gateway(stage.build_dependencies())) as port:
        watcher = ResumingWatcher(port=port, path=STREAM)
        await watcher.watch_connection()
        assert watcher.end_event is not None
        assert watcher.end_event.name == end
        async with open_stream(port, STREAM, last_id=watcher.last_id) as answer:
            assert answer.status == 204


@pytest.mark.parametrize("last_id", ["nonsense", "2.1.3", "1.2.0", "1.1.4", "1.1.3.done"])
@pytest.mark.parametrize("settled", [False, True])
async def test_cursor_that_was_never_issued_is_refused(
    stage: StreamedSession, last_id: str, *, settled: bool
) -> None:
    await stage.submit_turn()
    attempt = await stage.claim_turn()
    await stage.publish_text(attempt, "Hey")
    if settled:
        await stage.fail_turn(attempt)
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, STREAM, last_id=last_id) as answer,
    ):
        assert answer.status == 400
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path", ["/v1/sessions/none/turns/1/stream", "/v1/sessions/s/turns/7/stream"]
)
async def test_stream_of_a_missing_session_or_turn_returns_404(
    stage: StreamedSession, path: str
) -> None:
    async with (
        serve_app(build_stream_gateway(stage.build_dependencies())) as port,
        open_stream(port, path) as answer,
    ):
        assert answer.status == 404


async def test_keep_alive_comments_are_sent_while_no_tokens_arrive(stage: StreamedSession) -> None:
    await stage.submit_turn()
    desk = stage.build_dependencies(keep_alive=0.02)
    async with serve_app(build_stream_gateway(desk)) as port, open_stream(port, STREAM) as answer:
        while answer.comments < 3:
            answer.parse_chunk(await answer.read_chunk())


async def test_watchers_of_a_stopping_gateway_resume_on_another_one(
    stage: StreamedSession,
) -> None:
    await stage.submit_turn()
    attempt = await stage.claim_turn()
    await stage.publish_text(attempt, "Wait")
    ending = stage.build_dependencies()
    watcher = ResumingWatcher(port=0, path=STREAM)
    async with (
        serve_app(build_stream_gateway(ending)) as port,
        serve_app(build_stream_gateway(stage.build_dependencies())) as other,
    ):
        async with open_stream(port, STREAM) as answer:
            async for event in answer.iterate_events():
                watcher.apply_event(event)
                ending.shutdown_event.set()
        assert watcher.names == ["token"]
        await stage.publish_text(attempt, " for it")
        await stage.complete_turn(attempt)
        watcher.port = other
        await watcher.watch_connection()
    assert watcher.text == "Wait for it"
