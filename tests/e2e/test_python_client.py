"""The Python client against a running service: conversations, lost connections and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.fault_proxy import FaultProxy, run_fault_proxy
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.client import (
    AsyncTurnlogClient,
    DoneEvent,
    InvalidRequest,
    NotFound,
    RequestConflict,
    SessionClient,
    TokenEvent,
    TurnEvent,
    TurnlogClient,
    TurnUnsettled,
)
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted

pytestmark = pytest.mark.asyncio(loop_scope="session")


def get_address(up: TurnlogUp) -> str:
    return str(up.service.http.base_url)


@pytest_asyncio.fixture(loop_scope="session")
async def turnlog(up: TurnlogUp) -> AsyncIterator[AsyncTurnlogClient]:
    async with AsyncTurnlogClient(get_address(up)) as client:
        yield client


@asynccontextmanager
async def connect_through_proxy(
    up: TurnlogUp,
) -> AsyncGenerator[tuple[AsyncTurnlogClient, FaultProxy]]:
    """Yield a client whose connections a test may break."""
    async with run_fault_proxy(get_address(up)) as proxy:
        address = f"http://127.0.0.1:{urlsplit(proxy.url).port}"
        async with AsyncTurnlogClient(address) as client:
            yield client, proxy


def join_tokens(events: list[TurnEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TokenEvent))


async def test_a_conversation_from_the_first_turn_to_the_last(
    turnlog: AsyncTurnlogClient, provider: OpenAIServer
) -> None:
    provider.queue_behaviours(ModelAnswer(("Paris.",)), ModelAnswer(("About two ", "million.")))
    session = await turnlog.open_session("assistant", attributes={"name": "Ada"})
    first = await session.run_turn("What is the capital of France?")
    assert (first.turn, first.status, first.reply) == (1, "completed", "Paris.")
    events = [event async for event in session.stream_turn("And how many live there?")]
    assert join_tokens(events) == "About two million."
    assert isinstance(events[-1], DoneEvent)
    assert [event async for event in session.watch_turn(2, after=events[-1].cursor)] == []
    history = await session.fetch_history()
    assert [turn.reply for turn in history.turns] == ["Paris.", "About two million."]
    assert (await session.fetch_state(at=1)).turns == 0
    assert (await session.fetch_state()).attributes["name"] == "Ada"
    await session.close_session()
    with pytest.raises(RequestConflict, match="session-closed"):
        await session.submit_turn("Are you there?")


async def test_the_blocking_client_does_the_same(up: TurnlogUp, provider: OpenAIServer) -> None:
    provider.queue_behaviours(ModelAnswer(("One ", "answer.")), ModelAnswer(("Another.",)))

    def converse() -> tuple[SessionClient, list[TurnEvent], list[str]]:
        with TurnlogClient(get_address(up)) as turnlog:
            session = turnlog.open_session("assistant")
            events = list(session.stream_turn("Hello"))
            assert list(session.watch_turn(1, after=events[-1].cursor)) == [], "it was at its end"
            session.run_turn("And?")
            names = list[str]()
            for event in session.watch_events():
                names.append(event.name)
                if names.count("turn-completed") == 2:
                    break
            first = next(session.watch_events(types=["turn-submitted", "turn-completed"]))
            assert first.name == "turn-submitted"
            ended = next(turnlog.watch_events(types=["turn-completed"]))
            assert ended.name == "turn-completed"
            return session, events, names

    session, events, names = await asyncio.to_thread(converse)
    assert join_tokens(events) == "One answer."
    stored = await up.service.list_events(session.session)
    assert len(names) == len(stored)


async def test_a_command_whose_answer_was_lost_is_carried_out_once(up: TurnlogUp) -> None:
    async with connect_through_proxy(up) as (turnlog, proxy):
        session = await turnlog.open_session("assistant")
        proxy.drop_server_data()
        submitting = asyncio.create_task(session.submit_turn("Hello"))
        await up.service.wait_for_event(session.session, TurnSubmitted)
        proxy.reset_faults()
        assert (await submitting).turn == 1
    await up.service.wait_for_event(session.session, TurnCompleted)
    assert len(await up.service.list_events_of_type(session.session, TurnSubmitted)) == 1


async def test_a_stream_goes_on_where_its_connection_broke(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(("It goes ", "on ", "and on."), gates={1: gate}))
    async with connect_through_proxy(up) as (turnlog, proxy):
        session = await turnlog.open_session("assistant")
        events = list[TurnEvent]()
        async with aclosing(session.stream_turn("Hello")) as stream:
            async for event in stream:
                events.append(event)
                if isinstance(event, TokenEvent) and not gate.is_set():
                    proxy.cut_connections()
                    gate.set()
    assert join_tokens(events) == "It goes on and on."
    assert isinstance(events[-1], DoneEvent)


async def test_a_turn_that_takes_longer_than_the_caller_waits_goes_on(
    turnlog: AsyncTurnlogClient, up: TurnlogUp, provider: OpenAIServer
) -> None:
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(("At ", "last."), gates={0: gate}))
    session = await turnlog.open_session("assistant")
    with pytest.raises(TurnUnsettled):
        await session.run_turn("Hello", timeout=0.05)
    gate.set()
    completed = await up.service.wait_for_event(session.session, TurnCompleted)
    assert completed.turn == 1


async def test_a_refusal_names_the_field_and_the_fix(turnlog: AsyncTurnlogClient) -> None:
    with pytest.raises(NotFound) as refused:
        await turnlog.open_session("asistant")
    error = refused.value
    assert (error.status, error.code, error.field) == (404, "unknown-blueprint", "blueprint")
    assert error.fix == "write `assistant`"
    with pytest.raises(InvalidRequest, match=r"attributes\.langage"):
        await turnlog.open_session("assistant", attributes={"langage": "French"})
    with pytest.raises(InvalidRequest, match=r"^invalid: reason: String.*; send at least 1 ch"):
        await turnlog.use_session("nobody").redact_reply(1, "")
    with pytest.raises(NotFound):
        await turnlog.use_session("nobody/../1").fetch_state()
    with pytest.raises(InvalidRequest, match="unknown-type"):
        _ = [event async for event in turnlog.watch_events(types=["turn-complete"])]
    with pytest.raises(NotFound, match="unknown-session"):
        _ = [event async for event in turnlog.use_session("nobody").watch_events()]


async def test_commands_on_a_session(turnlog: AsyncTurnlogClient, provider: OpenAIServer) -> None:
    provider.queue_behaviours(ModelAnswer(("A secret.",)), ModelAnswer(("Nothing.",)))
    session = await turnlog.open_session("assistant", session=None)
    await session.run_turn("Tell me.")
    redacted = await session.redact_reply(1, "a secret", replacement="(withheld)")
    await session.exclude_turn(1)
    (turn,) = (await session.fetch_history()).turns
    assert (turn.reply, turn.redacted, turn.excluded) == ("(withheld)", True, True)
    await session.restore_turn(1)
    fork = await session.fork_session(redacted.sequence)
    assert fork.session != session.session
    assert len((await fork.fetch_history()).turns) == 1
    await fork.run_turn("And now?")
    listed = await turnlog.list_sessions(blueprint="assistant", text="Tell me")
    assert {each.blueprint for each in listed.sessions} == {"assistant"}
    failed = await turnlog.list_sessions(text="Tell me", failed=True)
    of_another_profile = await turnlog.list_sessions(text="Tell me", profile="another")
    of_another_phase = await turnlog.list_sessions(text="Tell me", phase="another")
    assert failed.sessions == of_another_profile.sessions == of_another_phase.sessions == ()
    whole = await turnlog.list_sessions(text="Tell me", failed=False)
    assert {each.session for each in whole.sessions} >= {fork.session}
    with pytest.raises(RequestConflict, match="nothing-to-cancel"):
        await session.cancel_turn()
