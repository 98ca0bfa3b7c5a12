"""Streams of stored events over real HTTP, of one session and of all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.services.gateway.streaming import Stage, gateway, served, staged
from tests.services.gateway.watching import Answer, Heard, asking

SESSION = "/v1/sessions/s/events"
ALL = "/v1/events"


@pytest_asyncio.fixture(params=["memory", "nats"])
async def stage(
    request: pytest.FixtureRequest, fresh_tenant: str, nats_url: str
) -> AsyncIterator[Stage]:
    async with staged(fresh_tenant, nats_url if request.param == "nats" else None) as stage:
        yield stage


async def conversation(stage: Stage, turns: int) -> None:
    for turn in range(1, turns + 1):
        await stage.submit(f"Question {turn}")
        attempt = await stage.claim(turn)
        await stage.say(attempt, f"Answer {turn}")
        await stage.complete(attempt)


async def some(answer: Answer, count: int) -> list[Heard]:
    """Take `count` events, then close the connection."""
    heard: list[Heard] = []
    async for event in answer.events():
        heard.append(event)
        if len(heard) == count:
            return heard
    raise AssertionError(f"the stream ended after {len(heard)}")


async def stored(stage: Stage) -> list[str]:
    events = await stage.sessions().load_events(stage.tenant, stage.session)
    return [event.stored.decode() for event in events]


async def test_the_past_comes_first_then_what_happens(stage: Stage) -> None:
    await conversation(stage, 1)
    async with served(gateway(stage.desk())) as port, asking(port, SESSION) as answer:
        events = answer.events()
        past = [await anext(events) for _ in range(6)]
        await stage.submit("And now?")
        live = await anext(events)
    assert [event.id for event in (*past, live)] == ["1", "2", "3", "4", "5", "6", "7"]
    assert [event.name for event in past][:3] == [
        "session-opened",
        "turn-submitted",
        "attempt-started",
    ]
    assert live.name == "turn-submitted"
    assert live.json["data"]["text"] == {"text": "And now?"}


async def test_what_is_sent_are_the_stored_bytes(stage: Stage) -> None:
    await conversation(stage, 1)
    async with served(gateway(stage.desk())) as port, asking(port, SESSION) as answer:
        assert [event.data for event in await some(answer, 6)] == await stored(stage)


@pytest.mark.parametrize("path", [SESSION, ALL])
async def test_a_filter_leaves_out_what_was_not_asked_for(stage: Stage, path: str) -> None:
    await conversation(stage, 2)
    asked = f"{path}?types=turn-submitted,turn-completed"
    async with served(gateway(stage.desk())) as port, asking(port, asked) as answer:
        names = [event.name for event in await some(answer, 4)]
    assert names == ["turn-submitted", "turn-completed"] * 2


@pytest.mark.parametrize("path", [SESSION, ALL])
async def test_last_event_id_goes_before_what_the_address_says(stage: Stage, path: str) -> None:
    await conversation(stage, 1)
    async with served(gateway(stage.desk())) as port:
        async with asking(port, path) as answer:
            second, third = (await some(answer, 3))[1:]
        async with asking(port, f"{path}?after={second.id}") as answer:
            assert (await some(answer, 1)) == [third]
        async with asking(port, f"{path}?after=0", last_id=second.id) as answer:
            assert (await some(answer, 1)) == [third]


@pytest.mark.parametrize("path", [SESSION, ALL])
@pytest.mark.parametrize("seed", range(3))
async def test_over_random_disconnects_no_event_is_missed_and_none_comes_twice(
    stage: Stage, path: str, seed: int
) -> None:
    cuts = random.Random(seed)  # noqa: S311 -- to be repeated
    heard: list[Heard] = []
    async with served(gateway(stage.desk())) as one, served(gateway(stage.desk())) as other:
        talking = asyncio.create_task(conversation(stage, 4))
        while len(heard) < 21:
            last_id = heard[-1].id if heard else None
            async with asking(cuts.choice([one, other]), path, last_id=last_id) as answer:
                heard += await some(answer, min(cuts.randrange(1, 6), 21 - len(heard)))
        await talking
    assert [event.data for event in heard] == await stored(stage)


@pytest.mark.parametrize("path", [SESSION, ALL])
@pytest.mark.parametrize("last_id", ["nonsense", "-1", "01", "1.1.5", "99999999"])
async def test_an_id_that_no_event_has_is_refused(stage: Stage, path: str, last_id: str) -> None:
    async with (
        served(gateway(stage.desk())) as port,
        asking(port, path, last_id=last_id) as answer,
    ):
        assert answer.status == 400


async def test_the_place_of_another_tenants_event_is_refused(stage: Stage) -> None:
    async with served(gateway(stage.desk())) as port:
        async with asking(port, ALL) as answer:
            (opened,) = await some(answer, 1)
        stranger = Stage(stage.log, stage.blobs, stage.snapshots, stage.tokens, "stranger")
        async with (
            served(gateway(stranger.desk())) as door,
            asking(door, ALL, last_id=opened.id) as answer,
        ):
            assert answer.status == 400


async def test_a_session_that_is_not_there_has_no_events(stage: Stage) -> None:
    async with (
        served(gateway(stage.desk())) as port,
        asking(port, "/v1/sessions/none/events") as answer,
    ):
        assert answer.status == 404


async def test_events_of_all_sessions_come_in_one_stream(stage: Stage) -> None:
    second = Stage(
        stage.log, stage.blobs, stage.snapshots, stage.tokens, stage.tenant, session="second"
    )
    async with served(gateway(stage.desk())) as port, asking(port, ALL) as answer:
        await second.open()
        await stage.submit()
        events = [(event.json["subject"], event.name) for event in await some(answer, 3)]
    assert events == [
        ("s", "session-opened"),
        ("second", "session-opened"),
        ("s", "turn-submitted"),
    ]
