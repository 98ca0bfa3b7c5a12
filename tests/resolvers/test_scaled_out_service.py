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

from tests.resolvers.question_service import (
    PRICE,
    RISK,
    UNRESOLVED_QUESTION,
    QuestionHost,
    QuestionService,
    answer_with_text,
    prepare_question_host,
    start_question_service,
)
from tests.resolvers.requirements import (
    ask_requirements,
    conversation_requirements,
    memory_requirements,
    reference_requirements,
)
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.content import compute_digest
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.prompt_events import PromptsSnapshotted
from turnlog.events.model.session_events import SessionOpened
from turnlog.projections.blueprint.schema.blueprint_model import compute_blueprint_digest
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS, BlueprintFolders

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

Requirement = Callable[[QuestionService], Awaitable[None]]

FRESH, RESTARTED = "fresh", "restarted"

FILES = (
    conversation_requirements,
    ask_requirements,
    memory_requirements,
    reference_requirements,
)

AT_LEAST = 5
"""Conversations; more are added until both workers have answered turns."""


def iterate_requirements() -> Iterator[tuple[str, Requirement]]:
    """Iterate over the requirement tests by name, one entry for each parameter."""
    for file in FILES:
        for name, test in vars(file).items():
            if name.startswith("test_a") and "a_bank" in inspect.signature(test).parameters:
                for number, case in enumerate(iterate_cases(test)):
                    yield f"{name.removeprefix('test_')}-{number}", case


def iterate_cases(test: Callable[..., Awaitable[None]]) -> Iterator[Requirement]:
    """Iterate over a test's parametrised cases, or over the test itself."""
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    found = [mark.args for mark in marks if mark.name == "parametrize"]
    if not found:
        yield test
    for names, values in found:
        for value in values:
            arguments = (
                {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
            )
            yield partial(test, **arguments)


REQUIREMENTS = dict(iterate_requirements())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[QuestionHost]:
    async with prepare_question_host(tmp_path_factory.mktemp("town"), provider) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[FRESH, RESTARTED])
async def a_bank(
    request: pytest.FixtureRequest, place: QuestionHost, provider: OpenAIServer
) -> AsyncIterator[QuestionService]:
    if request.param == RESTARTED:
        await place.server.restart()
    async with start_question_service(
        place, provider, gateways=2, workers=2, client=request.param
    ) as running:
        yield running


async def list_workers(running: QuestionService, *conversations: str) -> set[str]:
    events = [each.event for name in conversations for each in await running.load_events(name)]
    return {event.worker for event in events if isinstance(event, AttemptStarted)}


async def test_a7_memory_is_shared_by_all_processes_and_survives_restarts(
    a_bank: QuestionService,
) -> None:
    one = replace(a_bank, client="bank")
    earlier = [] if a_bank.client == FRESH else ["Calm.", "Cheap."]
    memory = await one.list_memory_messages("a7") if earlier else []
    assert [line for line in memory if line.startswith("assistant")] == [
        f"assistant: {reply}" for reply in earlier
    ]
    one.provider.queue_behaviours(answer_with_text("Calm."), answer_with_text("Cheap."))
    await one.submit_question(RISK, "a7")
    assert (await one.submit_question(PRICE, "a7"))["results"][0]["ticker"] == "LOGT11"
    prompt = await one.fetch_prompt("a7", f"{len(earlier) + 2}.1")
    sent_messages = [
        f"{message['role']}: {message['content']}" for message in prompt["messages"][1:]
    ]
    assert sent_messages == [*memory, f"user: {RISK}", "assistant: Calm.", f"user: {PRICE}"]
    memory = await one.list_memory_messages("a7")
    assert memory == await one.list_memory_messages("a7"), "both gateways tell the same"
    assert memory == [*sent_messages, "assistant: Cheap."]


async def test_a7_concurrent_first_questions_of_a_conversation_open_one_session(
    a_bank: QuestionService,
) -> None:
    names: list[str] = []
    while len(names) < AT_LEAST or len(await list_workers(a_bank, *names)) == 1:
        names.append(f"first-{len(names)}")
        await asyncio.gather(
            *(a_bank.submit_question(UNRESOLVED_QUESTION, names[-1]) for _ in range(4))
        )
    for name in names:
        assert (await a_bank.list_event_kinds(name)).count("session-opened") == 1
        turns = (await a_bank.fetch_session_part(name, "/history"))["turns"]
        assert [turn["status"] for turn in turns] == ["completed"] * 4


@pytest.mark.parametrize("identifier", conversation_requirements.ODD_CONVERSATION_IDS)
async def test_a1_client_and_conversation_can_have_any_id(
    a_bank: QuestionService, identifier: str
) -> None:
    client = f"{identifier[:900]}{a_bank.client}"
    strange = replace(a_bank, client=client)
    await strange.submit_question(UNRESOLVED_QUESTION, identifier)
    assert [
        turn["text"] for turn in (await strange.fetch_session_part(identifier, "/history"))["turns"]
    ] == [UNRESOLVED_QUESTION]


@pytest.mark.parametrize("row", REQUIREMENTS)
async def test_requirement_holds_with_two_gateways_and_two_workers(
    a_bank: QuestionService, row: str
) -> None:
    await REQUIREMENTS[row](a_bank)


async def test_tested_blueprint_policy_and_instructions_equal_the_shipped_ones(
    a_bank: QuestionService,
) -> None:
    """The folder is a copy, so that a test may edit a file; the record has the shipped digests."""
    await a_bank.submit_question(RISK, "shipped")
    events = [each.event for each in await a_bank.load_events("shipped")]
    (opened,) = [event for event in events if isinstance(event, SessionOpened)]
    (pinned,) = [event for event in events if isinstance(event, PromptsSnapshotted)]
    folders = BlueprintFolders((SHIPPED_BLUEPRINTS,))
    shipped = folders.load_blueprint("araquem")
    policy = folders.read_memory_policy(shipped)
    assert policy is not None
    assert opened.blueprint.digest == compute_blueprint_digest(shipped)
    assert opened.memory == compute_digest(policy.policy.model_dump_json())
    narrator = (SHIPPED_BLUEPRINTS / "araquem/narrator.md").read_text().rstrip("\n")
    assert pinned.layers["persona"].digest == compute_digest(narrator)


async def test_every_requirement_row_has_a_test() -> None:
    assert {row.partition("_")[0] for row in REQUIREMENTS} == {
        "a1",
        "a2",
        "a3",
        "a4",
        "a5",
        "a6",
        "a8",
    }
