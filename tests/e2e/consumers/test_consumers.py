"""Consumers in several languages, killed while they read: nothing is lost or repeated.

Each stores its place and a digest of what it read in one write. In the end all digests are that of
the log, and the tokens of each turn are its reply.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio
from jsonschema import Draft202012Validator

from tests.docs.doc_pages import ROOT
from tests.e2e.consumers.consumer_programs import (
    GO_MISSING_REASON,
    NODE_MISSING_REASON,
    ConsumerProgram,
    RunningConsumer,
    build_go,
    build_python,
    build_typescript,
    run_consumer,
)
from tests.e2e.consumers.consumer_state import ConsumerState, ReplyText
from tests.faults.suite_extent import whole_programme
from tests.support.processes.live_service import TENANT
from tests.support.processes.process_host import run_process_host
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.async_tasks import cancel_tasks
from turnlog.services.http.headers import NDJSON_MEDIA_TYPE

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORDS = ("Ω ", "the ", "🏠 ", "harbour ", "opens ", "🚢 ", "at ", "six, ", "naïvely ", "put.")

SESSIONS = 3

FAMILIES = ("live.", "session.", "tokens.")
"""The first words of subjects that consumers may read."""

STRAYS = (b"no JSON", b"[]", b'{"tenant": "other", "subject": "x", "sequence": 1, "type": "x"}')
"""Messages that are no events, as whoever has the services' login can publish them."""


@dataclass(frozen=True, repr=False, kw_only=True)
class LoadedService:
    """A service whose sessions have turns all the time."""

    up: TurnlogUp
    driving: Sequence[asyncio.Task[None]]
    stop: asyncio.Event

    def get_address(self, name: str) -> str:
        """Return an address of the ready file."""
        return str(json.loads(self.up.ready_file.read_text())[name])

    async def finish_turns(self) -> None:
        """Wait until no turn runs and none will."""
        self.stop.set()
        await asyncio.gather(*self.driving)


async def drive_turns(up: TurnlogUp, stop: asyncio.Event, seed: int) -> None:
    """Run turns in one session, and publish what is no event between them."""
    random = Random(seed)  # noqa: S311 - what is published, not a secret
    session = await up.service.open_session()
    client = up.service.nats.connection.nc
    while not stop.is_set():
        assert (await up.service.run_turn(session))["status"] == "completed"
        subject = f"session.{TENANT}.{random.choice((session, 'stray'))}.turn"
        await client.jetstream().publish(subject, random.choice(STRAYS))


@pytest_asyncio.fixture(loop_scope="session")
async def loaded(provider: OpenAIServer, tmp_path: Path) -> AsyncIterator[LoadedService]:
    # Slow enough that a consumer is killed amid replies
    provider.choose_behaviour = lambda _: ModelAnswer(tokens=WORDS, pace=0.05)
    try:
        # They compare digests of stored bytes, which a gateway opens where they are sealed.
        variables = {"TURNLOG_SEALING": "off"}
        async with (
            run_process_host(tmp_path, build_settings(provider)) as host,
            run_turnlog_up(host, variables=variables) as up,
            run_load(up) as running,
        ):
            yield running
    finally:
        provider.choose_behaviour = None


@asynccontextmanager
async def run_load(up: TurnlogUp) -> AsyncGenerator[LoadedService]:
    stop = asyncio.Event()
    driving = [asyncio.create_task(drive_turns(up, stop, seed)) for seed in range(SESSIONS)]
    try:
        yield LoadedService(up=up, driving=driving, stop=stop)
    finally:
        await cancel_tasks(*driving)


async def kill_while_reading(program: ConsumerProgram, rounds: int) -> None:
    """Start and kill a consumer at random points: as it starts, or while it reads."""
    random = Random(program.name)  # noqa: S311 - when to kill, not a secret
    for _ in range(rounds):
        async with run_consumer(program) as consumer:
            for _ in range(random.choice((1, random.randint(2, 60)))):
                await consumer.read_progress()


async def see_whole_reply(program: ConsumerProgram, consumer: RunningConsumer) -> None:
    """Wait until a consumer has seen one more reply from end to end."""
    before = count_whole_replies(program)
    while count_whole_replies(program) <= before:
        for _ in WORDS:
            await consumer.read_progress()


def count_whole_replies(program: ConsumerProgram) -> int:
    replies = ConsumerState.load(program.state_file).replies.values()
    return sum(not each.is_cut and each.text.endswith(WORDS[-1]) for each in replies)


async def load_record(up: TurnlogUp) -> tuple[ConsumerState, Mapping[str, str]]:
    """Return what a consumer must have read in the end, and the reply of each turn."""
    expected, replies = ConsumerState(), dict[str, str]()
    headers = {"Accept": NDJSON_MEDIA_TYPE}
    answer = await up.service.http.get("/v1/events?stored=true", headers=headers)
    for stored in answer.content.removesuffix(b"\n").split(b"\n"):
        event = json.loads(stored)
        expected.add_event(
            session=event["subject"],
            sequence=event["sequence"],
            kind=event["type"],
            prevhash=event.get("prevhash"),
            stored=stored,
        )
        if event["type"] == "turnlog.turn-completed.v1":
            turn = f"{event['subject']}/{event['data']['turn']}"
            replies[turn] = event["data"]["text"]["text"]
    info = await up.service.nats.connection.nc.jetstream().stream_info("TOKENS")
    expected.tokens_place = info.state.last_seq
    return expected, replies


async def check_consumers(
    loaded: LoadedService, programs: Sequence[ConsumerProgram], rounds: int
) -> None:
    """Kill the consumers while turns run; then all have read the same as the log has."""
    async with asyncio.TaskGroup() as killing:
        for program in programs:
            killing.create_task(kill_while_reading(program, rounds))
    async with AsyncExitStack() as running:
        consumers = [await running.enter_async_context(run_consumer(each)) for each in programs]
        async with asyncio.TaskGroup() as seeing:
            for program, consumer in zip(programs, consumers, strict=True):
                seeing.create_task(see_whole_reply(program, consumer))
        await loaded.finish_turns()
        expected, replies = await load_record(loaded.up)
        for program, consumer in zip(programs, consumers, strict=True):
            await read_the_rest(program, consumer, expected, replies)
    for program in programs:
        read = ConsumerState.load(program.state_file)
        assert (read.count, read.digest) == (expected.count, expected.digest), program.name
        assert read.links == expected.links, program.name
        check_replies(program, read.replies, replies)


async def read_the_rest(
    program: ConsumerProgram,
    consumer: RunningConsumer,
    expected: ConsumerState,
    recorded: Mapping[str, str],
) -> None:
    """Wait until a consumer has read everything that will be."""
    tokens = {"stored": expected.tokens_place, "joined": expected.count, "live": 0}
    while not consumer.has_reached(expected.count, tokens[program.tokens]):
        await consumer.read_progress()
    # Over HTTP the last tokens may come behind the event that has the whole reply
    while program.tokens == "live" and is_reply_missing(program, recorded):
        await consumer.read_progress()


def is_reply_missing(program: ConsumerProgram, recorded: Mapping[str, str]) -> bool:
    replies = ConsumerState.load(program.state_file).replies.items()
    return any(not each.is_cut and each.text != recorded[turn] for turn, each in replies)


def check_replies(
    program: ConsumerProgram, read: Mapping[str, ReplyText], recorded: Mapping[str, str]
) -> None:
    for turn, reply in read.items():
        if reply.is_cut:
            assert recorded[turn].startswith(reply.text), (program.name, turn)
        else:
            assert reply.text == recorded[turn], (program.name, turn)
    if program.tokens == "stored":
        assert read.keys() == recorded.keys(), program.name
        assert not any(reply.is_cut for reply in read.values()), program.name


def list_python(loaded: LoadedService, folder: Path) -> Sequence[ConsumerProgram]:
    address = loaded.get_address("nats_consumer")
    return [
        ConsumerProgram(
            name="typed",
            command=[*build_python("typed_consumer"), address],
            state_file=folder / "typed.json",
            tokens="joined",
        ),
        ConsumerProgram(
            name="faststream",
            command=[*build_python("faststream_consumer"), address],
            state_file=folder / "faststream.json",
            tokens="stored",
        ),
    ]


def list_typescript(loaded: LoadedService, folder: Path) -> Sequence[ConsumerProgram]:
    scripts = build_typescript(folder)
    return [
        ConsumerProgram(
            name="nats.js",
            command=["node", scripts / "nats_consumer.js", loaded.get_address("nats_consumer")],
            state_file=folder / "nats.json",
            tokens="stored",
        ),
        ConsumerProgram(
            name="fetch",
            command=["node", scripts / "fetch_consumer.js", loaded.get_address("http")],
            state_file=folder / "fetch.json",
            tokens="live",
        ),
    ]


@pytest.mark.slow("it kills two consumers beside a service, and compiles one")
@pytest.mark.skipif(bool(NODE_MISSING_REASON), reason=NODE_MISSING_REASON)
async def test_x4_killed_consumers_of_a_shipped_blueprint_read_events_and_tokens_once(
    loaded: LoadedService, tmp_path: Path
) -> None:
    typed, _ = list_python(loaded, tmp_path)
    in_node, _ = list_typescript(loaded, tmp_path)
    await check_consumers(loaded, [typed, in_node], rounds=3)


@pytest.mark.slow("a service starts")
async def test_x4_document_of_a_service_is_valid_and_describes_all_that_it_publishes(
    loaded: LoadedService,
) -> None:
    service, client = loaded.up.service, loaded.up.service.nats.connection.nc
    published = await client.subscribe(">")
    await service.run_turn(await service.open_session())
    await loaded.finish_turns()
    await client.flush()
    messages = [await published.next_msg() for _ in range(published.pending_msgs)]
    await published.unsubscribe()
    # The official parser finds nothing wrong with that one.
    document = (await service.http.get("/asyncapi.json")).json()
    assert document == json.loads((ROOT / "docs/reference/asyncapi.json").read_text())
    addresses = {
        re.compile(re.sub(r"\\\{\w+\\\}", r"[^.]+", re.escape(channel["address"])))
        for channel in document["channels"].values()
    }
    described = [each for each in messages if each.subject.startswith(FAMILIES)]
    assert {each.subject.partition(".")[0] + "." for each in described} == {*FAMILIES}
    for name in {each.subject for each in described}:
        assert any(address.fullmatch(name) for address in addresses), name
    for kind, schema in {"session": "StoredEvent", "tokens": "TokenEvent"}.items():
        reference = {"$ref": f"#/components/schemas/{schema}"}
        validator = Draft202012Validator(reference | {"components": document["components"]})
        for each in described:
            if kind in each.subject.split(".")[:2] and each.data not in STRAYS:
                validator.validate(json.loads(each.data))


@whole_programme
@pytest.mark.timeout(300)
@pytest.mark.slow("each consumer is killed 20 times")
@pytest.mark.skipif(bool(NODE_MISSING_REASON), reason=NODE_MISSING_REASON)
async def test_consumers_killed_twenty_times_read_everything_once(
    loaded: LoadedService, tmp_path: Path
) -> None:
    programs = [*list_python(loaded, tmp_path), *list_typescript(loaded, tmp_path)]
    await check_consumers(loaded, programs, rounds=20)


@whole_programme
@pytest.mark.timeout(300)
@pytest.mark.slow("a consumer is examined, compiled and killed 20 times")
@pytest.mark.skipif(bool(GO_MISSING_REASON), reason=GO_MISSING_REASON)
async def test_consumer_in_go_killed_twenty_times_reads_everything_once(
    loaded: LoadedService, tmp_path: Path
) -> None:
    in_go = ConsumerProgram(
        name="go",
        command=[build_go(tmp_path), loaded.get_address("nats_consumer")],
        state_file=tmp_path / "go.json",
        tokens="stored",
    )
    await check_consumers(loaded, [in_go], rounds=20)
