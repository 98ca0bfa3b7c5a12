"""Processes told to end during a streaming turn end in order and in time, and lose nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.parts.door.sitecustomize import SLAMMED
from tests.parts.everything import everything
from tests.parts.openai_behaviours import Answer
from tests.parts.openai_server import OpenAIServer
from tests.parts.processes import Machine, ended, exit_code
from tests.parts.roles import WITHOUT_LITELLM, Roles
from tests.parts.service import Service
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.turn_events import TurnCompleted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(400)]


async def streaming(service: Service, provider: OpenAIServer) -> tuple[str, asyncio.Event]:
    """Start a turn whose model has sent one token; return its session and the gate it waits for."""
    gate, asked = asyncio.Event(), len(provider.exchanges)
    provider.will(Answer(gates={1: gate}))
    session = await service.open()
    await service.submit(session)
    await provider.exchange(asked + 1)
    async with service.watching(session) as watched:
        async for event in watched.events():
            if event.name == "token":
                return session, gate
    raise AssertionError("the stream ended without a token")


async def handed_back(service: Service, session: str) -> None:
    """Check that a turn was handed back, resumed and answered once."""
    await service.until(session, TurnCompleted)
    first, second = await service.of_kind(session, AttemptEnded)
    assert (first.outcome, first.fault and first.fault.code) == ("cancelled", "handed-back")
    assert first.cost.micro_dollars
    assert (second.attempt, second.outcome) == (2, "answered")
    assert len(await service.of_kind(session, TurnCompleted)) == 1


@pytest.mark.promise("P20")
async def test_everything_finishes_what_it_can_in_time_and_hands_back_the_rest(
    host: Machine, provider: OpenAIServer
) -> None:
    async with everything(host) as first:
        slow, _ = await streaming(first.service, provider)
        quick, gate = await streaming(first.service, provider)
        first.process.terminate()
        gate.set()
        assert await exit_code(first.process) == 0
        assert not first.ready_file.exists()
    async with everything(host) as second:
        await handed_back(second.service, slow)
        (only,) = await second.service.of_kind(quick, AttemptEnded)
        assert (only.attempt, only.outcome) == (1, "answered")


@pytest.mark.promise("P20")
async def test_each_role_ends_while_a_turn_streams_and_nothing_is_lost(separate: Roles) -> None:
    service = separate.service
    worker = await separate.start_worker()
    session, _ = await streaming(service, separate.provider)
    async with service.watching(session) as watched:
        assert (await anext(watched.events())).name == "token"
        assert await ended(separate.gateway) == 0
        await watched.whole()
        assert not watched.unfinished, "the stream was cut, not ended"
    assert await ended(separate.projector) == 0
    assert await ended(worker) == 0
    await separate.start_worker()
    await separate.start_gateway()
    await separate.start_projector()
    await handed_back(service, session)
    (call,) = await service.calls(session)
    assert [each["outcome"] for each in call["attempts"]] == ["cancelled", "answered"]


async def test_only_the_worker_ever_imports_litellm(separate: Roles) -> None:
    """Gateway and projector would not have lived through these tests, nor those of crashes."""
    assert (separate.gateway.returncode, separate.projector.returncode) == (None, None)
    worker = await separate.machine.start("run", "worker", told=WITHOUT_LITELLM)
    assert await exit_code(worker) == SLAMMED
