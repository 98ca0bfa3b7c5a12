"""A7: the memory is one, whichever gateway is asked and whichever worker answers, and it stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.araquem.bank import NOWHERE, PRICE, RISK, Bank, Town, bank, said, town
from tests.parts.openai_server import OpenAIServer
from turnlog.events.call import AttemptStarted

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

AT_LEAST = 5
"""Conversations; more until both workers have had some of their turns."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("town"), provider) as found:
        yield found


async def workers_of(running: Bank, *conversations: str) -> set[str]:
    """Name the workers that claimed a turn."""
    events = [each.event for name in conversations for each in await running.events(name)]
    return {event.worker for event in events if isinstance(event, AttemptStarted)}


async def test_a7_memory_is_shared_by_all_processes_and_outlives_them(
    place: Town, provider: OpenAIServer
) -> None:
    async with bank(place, provider, gateways=2, workers=2) as first:
        provider.will(said("Calm."), said("Cheap."))
        await first.ask(RISK, "a7")
        assert (await first.ask(PRICE, "a7"))["results"][0]["ticker"] == "LOGT11"
        told = await first.messages("a7")
        assert told == await first.messages("a7"), "both gateways tell the same"
    await place.server.restart()
    async with bank(place, provider, gateways=2, workers=2) as second:
        assert await second.messages("a7") == told
        assert await second.messages("a7") == told
        provider.will(said("Many."))
        third = await second.ask("What does it own?", "a7")
        assert third["results"][0]["ticker"] == "LOGT11"
        prompt = await second.prompt("a7", "3.1")
        spoken = [f"{said['role']}: {said['content']}" for said in prompt["messages"][1:]]
        assert spoken == [*told, "user: What does it own?"]
        for call in ("1.1", "2.1"):
            await second.prompt("a7", call)


async def test_a7_the_first_questions_of_a_conversation_open_one_session(
    place: Town, provider: OpenAIServer
) -> None:
    async with bank(place, provider, gateways=2, workers=2) as running:
        names: list[str] = []
        while len(names) < AT_LEAST or len(await workers_of(running, *names)) == 1:
            names.append(f"first-{len(names)}")
            await asyncio.gather(*(running.ask(NOWHERE, names[-1]) for _ in range(4)))
        for name in names:
            assert (await running.kinds(name)).count("session-opened") == 1
            turns = (await running.get(name, "/history"))["turns"]
            assert [turn["status"] for turn in turns] == ["completed"] * 4
