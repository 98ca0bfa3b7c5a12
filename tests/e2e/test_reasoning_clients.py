"""What a model reasons, as the Python clients and the terminal get it from a running service."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.e2e.test_python_client import get_address, join_tokens
from tests.support.processes.terminal_user import run_at_terminal
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.client import (
    AsyncTurnlogClient,
    DoneEvent,
    ReasoningEvent,
    TurnEvent,
    TurnlogClient,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

PIECES: Final = ("Is it \U0001f600", " or not?")
THOUGHT: Final = "".join(PIECES)


@dataclass(frozen=True)
class WaitingAnswer:
    """A model that reasons and waits until its reasoning was received: a late reader gets none."""

    received: asyncio.Event = field(default_factory=asyncio.Event)

    def build_answer(self) -> ModelAnswer:
        return ModelAnswer(reasoning=PIECES, tokens=("It ", "is."), gates={0: self.received})


@pytest.fixture
def waiting(provider: OpenAIServer) -> WaitingAnswer:
    """The answer to the next two requests."""
    answer = WaitingAnswer()
    provider.queue_behaviours(answer.build_answer(), answer.build_answer())
    return answer


def check_streams(reasoned: list[TurnEvent], plain: list[TurnEvent]) -> None:
    """Check the streams of two turns; reasoning was asked for in the first."""
    pieces = [each for each in reasoned if isinstance(each, ReasoningEvent)]
    assert "".join(each.text for each in pieces) == THOUGHT
    assert all(THOUGHT[each.offset :].startswith(each.text) for each in pieces)
    assert {(each.call, each.attempt) for each in pieces} == {("1.1", 1)}
    assert not [each for each in plain if isinstance(each, ReasoningEvent)]
    for events in (reasoned, plain):
        assert join_tokens(events) == "It is."
        assert isinstance(events[-1], DoneEvent)


async def test_reasoning_is_streamed_and_in_the_history_where_it_is_asked_for(
    up: TurnlogUp, waiting: WaitingAnswer
) -> None:
    async with AsyncTurnlogClient(get_address(up)) as turnlog:
        session = await turnlog.open_session("assistant")
        reasoned = list[TurnEvent]()
        async for event in session.stream_turn("Is it?", reasoning=True):
            reasoned.append(event)
            if isinstance(event, ReasoningEvent):
                waiting.received.set()
        check_streams(reasoned, [each async for each in session.stream_turn("Is it?")])
        asked, plain = await session.fetch_history(reasoning=True), await session.fetch_history()
    assert [turn.reasoning for turn in asked.turns] == [THOUGHT, THOUGHT]
    assert [turn.reasoning for turn in plain.turns] == [None, None]


async def test_blocking_client_streams_reasoning_where_it_is_asked_for(
    up: TurnlogUp, waiting: WaitingAnswer
) -> None:
    loop = asyncio.get_running_loop()

    def converse() -> tuple[list[TurnEvent], list[TurnEvent], str | None]:
        with TurnlogClient(get_address(up)) as turnlog:
            session = turnlog.open_session("assistant")
            reasoned = list[TurnEvent]()
            for event in session.stream_turn("Is it?", reasoning=True):
                reasoned.append(event)
                if isinstance(event, ReasoningEvent):
                    loop.call_soon_threadsafe(waiting.received.set)
            plain = list(session.stream_turn("Is it?"))
            return reasoned, plain, session.fetch_history(reasoning=True).turns[0].reasoning

    reasoned, plain, recorded = await asyncio.to_thread(converse)
    check_streams(reasoned, plain)
    assert recorded == THOUGHT


@pytest.mark.slow("the terminal is a process of its own")
async def test_chat_shows_what_the_model_reasons_before_its_reply_where_it_is_asked_to(
    up: TurnlogUp, waiting: WaitingAnswer
) -> None:
    loop = asyncio.get_running_loop()

    def converse(*options: str) -> str:
        with run_at_terminal("chat", "--url", get_address(up), *options) as person:
            person.wait_for_text("you ▌")
            person.send_line("Is it?\n")
            if options:
                person.wait_for_text("reasons ▌ Is it")
                loop.call_soon_threadsafe(waiting.received.set)
            return person.read_until("reply ▌ It is.")

    assert PIECES[1] in await asyncio.to_thread(converse, "--reasoning")
    assert PIECES[1] not in await asyncio.to_thread(converse)
