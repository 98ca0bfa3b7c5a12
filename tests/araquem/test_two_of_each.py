"""Every requirement with two gateways and two workers, and again after a restart of all.

This also shows A7: there is one memory, whichever gateway and worker serve a request, and it
persists. The requirements are in `requirements`. Each run uses another client id, so that no
earlier conversation is found.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest
import pytest_asyncio

from tests.araquem.bank import NOWHERE, PRICE, RISK, Bank, Town, bank, said, town
from tests.araquem.rows import conversations, front_door, memory, references
from tests.parts.openai_server import OpenAIServer
from turnlog.events.model.call_events import AttemptStarted

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

Row = Callable[[Bank], Awaitable[None]]

FRESH, RESTARTED = "fresh", "restarted"
FILES = (conversations, front_door, memory, references)
AT_LEAST = 5
"""Conversations; more are added until both workers have answered turns."""


def rows() -> Iterator[tuple[str, Row]]:
    """Iterate over the requirement tests by name, one entry for each parameter."""
    for file in FILES:
        for name, test in vars(file).items():
            if name.startswith("test_a") and "a_bank" in inspect.signature(test).parameters:
                for number, case in enumerate(cases(test)):
                    yield f"{name.removeprefix('test_')}-{number}", case


def cases(test: Callable[..., Awaitable[None]]) -> Iterator[Row]:
    """Iterate over a test's parametrised cases, or over the test itself."""
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    found = [mark.args for mark in marks if mark.name == "parametrize"]
    if not found:
        yield test
    for names, values in found:
        for value in values:
            given = (
                {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
            )
            yield partial(test, **given)


ROWS = dict(rows())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("town"), provider) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[FRESH, RESTARTED])
async def a_bank(
    request: pytest.FixtureRequest, place: Town, provider: OpenAIServer
) -> AsyncIterator[Bank]:
    if request.param == RESTARTED:
        await place.server.restart()
    async with bank(place, provider, gateways=2, workers=2, client=request.param) as running:
        yield running


async def workers_of(running: Bank, *conversations: str) -> set[str]:
    events = [each.event for name in conversations for each in await running.events(name)]
    return {event.worker for event in events if isinstance(event, AttemptStarted)}


async def test_a7_memory_is_shared_by_all_processes_and_outlives_them(a_bank: Bank) -> None:
    one = replace(a_bank, client="bank")
    earlier = [] if a_bank.client == FRESH else ["Calm.", "Cheap."]
    told = await one.messages("a7") if earlier else []
    assert [line for line in told if line.startswith("assistant")] == [
        f"assistant: {reply}" for reply in earlier
    ]
    one.provider.will(said("Calm."), said("Cheap."))
    await one.ask(RISK, "a7")
    assert (await one.ask(PRICE, "a7"))["results"][0]["ticker"] == "LOGT11"
    prompt = await one.prompt("a7", f"{len(earlier) + 2}.1")
    spoken = [f"{said['role']}: {said['content']}" for said in prompt["messages"][1:]]
    assert spoken == [*told, f"user: {RISK}", "assistant: Calm.", f"user: {PRICE}"]
    told = await one.messages("a7")
    assert told == await one.messages("a7"), "both gateways tell the same"
    assert told == [*spoken, "assistant: Cheap."]


async def test_a7_the_first_questions_of_a_conversation_open_one_session(a_bank: Bank) -> None:
    names: list[str] = []
    while len(names) < AT_LEAST or len(await workers_of(a_bank, *names)) == 1:
        names.append(f"first-{len(names)}")
        await asyncio.gather(*(a_bank.ask(NOWHERE, names[-1]) for _ in range(4)))
    for name in names:
        assert (await a_bank.kinds(name)).count("session-opened") == 1
        turns = (await a_bank.get(name, "/history"))["turns"]
        assert [turn["status"] for turn in turns] == ["completed"] * 4


@pytest.mark.parametrize("odd", conversations.ODD)
async def test_a1_anything_may_be_a_client_and_a_conversation(a_bank: Bank, odd: str) -> None:
    client = f"{odd[:900]}{a_bank.client}"
    strange = replace(a_bank, client=client)
    await strange.ask(NOWHERE, odd)
    assert [turn["text"] for turn in (await strange.get(odd, "/history"))["turns"]] == [NOWHERE]


@pytest.mark.parametrize("row", ROWS)
async def test_a_row_holds_with_two_of_each(a_bank: Bank, row: str) -> None:
    await ROWS[row](a_bank)


async def test_no_row_is_left_out() -> None:
    assert {row.partition("_")[0] for row in ROWS} == {"a1", "a2", "a3", "a4", "a5", "a6", "a8"}
