"""Turn streams over real HTTP, on a log in memory and on a real nats-server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.services.gateway.streaming import Stage, gateway, served, staged
from tests.services.gateway.watching import Watcher, asking

STREAM = "/v1/sessions/s/turns/1/stream"
PIECES = ["The ", "log ", "is ", "the truth", "\n", "ünïcödé", "日本", "🙂🙃", " code points. "]


@pytest_asyncio.fixture(params=["memory", "nats"])
async def stage(
    request: pytest.FixtureRequest, fresh_tenant: str, nats_url: str
) -> AsyncIterator[Stage]:
    async with staged(fresh_tenant, nats_url if request.param == "nats" else None) as stage:
        yield stage


async def speaking(stage: Stage, script: random.Random) -> str:
    """Answer turn 1 in one to three attempts at random intervals."""
    attempt = await stage.claim()
    for again in range(script.randrange(1, 4)):
        attempt = await stage.claim() if again else attempt
        for _ in range(script.randrange(40, 80)):
            await stage.say(attempt, script.choice(PIECES))
            await asyncio.sleep(script.choice([0, 0, 0, 0.003]))
    return await stage.complete(attempt)


@pytest.mark.parametrize("seed", range(6))
async def test_tokens_received_equal_the_recorded_reply_over_random_disconnects(
    stage: Stage, seed: int
) -> None:
    script, cuts = random.Random(seed), random.Random(-1 - seed)  # noqa: S311 -- to be repeated
    await stage.submit()
    async with (
        served(gateway(stage.desk())) as one,
        served(gateway(stage.desk())) as other,
        asyncio.TaskGroup() as tasks,
    ):
        saying = tasks.create_task(speaking(stage, script))
        watcher = Watcher(one, STREAM)
        while watcher.end is None:
            # Another gateway each time, as after a restart: none remembers a watcher
            watcher.port = cuts.choice([one, other])
            await watcher.watch(cuts.choice([10, 100, 400, 2000]))
        assert watcher.text == await saying
        assert watcher.end.name == "done"


async def first(port: int, count: int) -> Watcher:
    """Watch turn 1 until `count` events have arrived."""
    watcher = Watcher(port, STREAM)
    async with asking(port, STREAM) as answer:
        async for event in answer.events():
            watcher.get(event)
            if len(watcher.names) == count:
                return watcher
    raise AssertionError(f"the stream ended after {watcher.names}")


async def test_a_turn_that_is_answered_already_is_told_whole(stage: Stage) -> None:
    await stage.submit()
    attempt = await stage.claim()
    await stage.say(attempt, "All of it.")
    await stage.complete(attempt)
    async with served(gateway(stage.desk())) as port, asking(port, STREAM) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        assert answer.headers["x-accel-buffering"] == "no"
        told = await answer.whole()
    assert [(event.id, event.name, event.json) for event in told] == [
        ("1.1.10", "token", {"text": "All of it."}),
        ("1.1.10.done", "done", {"finish": "stop", "turn": 1, "sequence": 6}),
    ]


async def test_whoever_is_cut_off_all_the_time_gets_on_with_every_connection(stage: Stage) -> None:
    await stage.submit()
    attempt = await stage.claim()
    await stage.say(attempt, "Said in one piece, for once. " * 100)
    reply = await stage.complete(attempt)
    async with served(gateway(stage.desk())) as port:
        watcher = Watcher(port, STREAM)
        while watcher.end is None:
            before = watcher.last_id
            await watcher.watch(1_000)
            assert watcher.last_id != before
    assert watcher.text == reply


async def test_each_token_is_sent_as_it_is_said(stage: Stage) -> None:
    await stage.submit()
    async with served(gateway(stage.desk())) as port, asking(port, STREAM) as answer:
        attempt = await stage.claim()
        events = answer.events()
        for piece in ("Hel", "lo", "!"):
            await stage.say(attempt, piece)
            assert (await anext(events)).json == {"text": piece}
        await stage.complete(attempt)
        assert (await anext(events)).name == "done"


async def test_a_watcher_of_a_turn_that_waits_waits_with_it(stage: Stage) -> None:
    await stage.submit()
    await stage.submit("And then?")
    path = "/v1/sessions/s/turns/2/stream"
    async with served(gateway(stage.desk())) as port:
        watcher = Watcher(port, path)
        watching = asyncio.create_task(watcher.watch())
        before = await stage.claim(1)
        await stage.say(before, "First.")
        await stage.complete(before)
        attempt = await stage.claim(2)
        await stage.say(attempt, "Second.")
        await stage.complete(attempt)
        await watching
    assert watcher.text == "Second."


async def test_an_attempt_that_is_given_up_is_announced_and_its_text_is_void(stage: Stage) -> None:
    await stage.submit()
    async with served(gateway(stage.desk())) as port:
        given_up = await stage.claim()
        await stage.say(given_up, "half an ans")
        watcher = await first(port, 1)
        assert watcher.text == "half an ans"
        attempt = await stage.claim()
        await stage.say(given_up, "zombie")
        stage.said[1] = ""
        await stage.say(attempt, "A whole answer.")
        await stage.complete(attempt)
        await watcher.watch()
    assert watcher.names == ["token", "attempt-reset", "token", "done"]
    assert watcher.text == "A whole answer."


async def test_what_tokens_no_longer_hold_is_told_from_the_record(stage: Stage) -> None:
    await stage.submit()
    attempt = await stage.claim()
    await stage.say(attempt, "What was ")
    async with served(gateway(stage.desk())) as port:
        watcher = await first(port, 1)
        stage.said[1] += "said on the way "
        await stage.say(attempt, "and at last.")
        watching = asyncio.create_task(watcher.watch())
        await stage.complete(attempt)
        await watching
    assert watcher.text == "What was said on the way and at last."
    assert watcher.end is not None


async def test_a_failure_says_why_and_what_had_been_said(stage: Stage) -> None:
    await stage.submit()
    async with served(gateway(stage.desk())) as port:
        watcher = Watcher(port, STREAM)
        watching = asyncio.create_task(watcher.watch())
        attempt = await stage.claim()
        await stage.say(attempt, "half")
        await stage.fail(attempt, "rate_limited")
        await watching
    assert watcher.end is not None
    assert watcher.end.name == "failed"
    assert watcher.end.json == {"code": "rate_limited", "retryable": True, "partial": "half"}


async def test_a_cancelled_turn_ends_the_stream(stage: Stage) -> None:
    await stage.submit()
    async with served(gateway(stage.desk())) as port:
        attempt = await stage.claim()
        await stage.say(attempt, "never mi")
        watcher = await first(port, 1)
        watching = asyncio.create_task(watcher.watch())
        await stage.cancel()
        await watching
    assert watcher.end is not None
    assert watcher.end.name == "cancelled"
    assert watcher.end.json == {"reason": "cancelled"}


async def test_a_reply_that_was_withheld_is_never_told_again(stage: Stage) -> None:
    await stage.submit()
    attempt = await stage.claim()
    await stage.say(attempt, "a secret")
    async with served(gateway(stage.desk())) as port:
        early = await first(port, 1)
        await stage.complete(attempt)
        late = Watcher(port, STREAM)
        await late.watch()
        await stage.redact()
        await early.watch()
        assert early.end is not None
        assert early.end.json == {"reason": "it names a person", "replacement": "(withheld)"}
        async with asking(port, STREAM) as answer:
            assert [event.name for event in await answer.whole()] == ["redact"]
        async with asking(port, STREAM, last_id=late.last_id) as answer:
            assert [event.name for event in await answer.whole()] == ["redact"]


@pytest.mark.parametrize("end", ["done", "redact", "failed", "cancelled"])
async def test_whoever_has_had_the_end_is_told_to_stay_away(stage: Stage, end: str) -> None:
    await stage.submit()
    attempt = await stage.claim()
    match end:
        case "failed":
            await stage.fail(attempt)
        case "cancelled":
            await stage.cancel()
        case _:
            await stage.complete(attempt)
    if end == "redact":
        await stage.redact()
    async with served(gateway(stage.desk())) as port:
        watcher = Watcher(port, STREAM)
        await watcher.watch()
        assert watcher.end is not None
        assert watcher.end.name == end
        async with asking(port, STREAM, last_id=watcher.last_id) as answer:
            assert answer.status == 204


@pytest.mark.parametrize("last_id", ["nonsense", "2.1.3", "1.2.0", "1.1.4", "1.1.3.done"])
@pytest.mark.parametrize("settled", [False, True])
async def test_a_cursor_that_no_stream_sent_is_refused(
    stage: Stage, last_id: str, *, settled: bool
) -> None:
    await stage.submit()
    attempt = await stage.claim()
    await stage.say(attempt, "Hey")
    if settled:
        await stage.fail(attempt)
    async with (
        served(gateway(stage.desk())) as port,
        asking(port, STREAM, last_id=last_id) as answer,
    ):
        assert answer.status == 400
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path", ["/v1/sessions/none/turns/1/stream", "/v1/sessions/s/turns/7/stream"]
)
async def test_there_is_no_stream_of_what_is_not_there(stage: Stage, path: str) -> None:
    async with served(gateway(stage.desk())) as port, asking(port, path) as answer:
        assert answer.status == 404


async def test_signs_of_life_are_sent_while_nothing_is_said(stage: Stage) -> None:
    await stage.submit()
    desk = stage.desk(keep_alive=0.02)
    async with served(gateway(desk)) as port, asking(port, STREAM) as answer:
        while answer.comments < 3:
            answer.take(await answer.read())


async def test_a_gateway_that_ends_lets_its_watchers_go_and_they_go_on_elsewhere(
    stage: Stage,
) -> None:
    await stage.submit()
    attempt = await stage.claim()
    await stage.say(attempt, "Wait")
    ending = stage.desk()
    watcher = Watcher(0, STREAM)
    async with served(gateway(ending)) as port, served(gateway(stage.desk())) as other:
        async with asking(port, STREAM) as answer:
            async for event in answer.events():
                watcher.get(event)
                ending.shutdown_event.set()
        assert watcher.names == ["token"]
        await stage.say(attempt, " for it")
        await stage.complete(attempt)
        watcher.port = other
        await watcher.watch()
    assert watcher.text == "Wait for it"
