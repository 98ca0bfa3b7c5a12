"""Processes told to end during a streaming turn end in order and in time, and lose nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.services.gateway.streaming.sse_client import StreamingResponse
from tests.support.processes.litellm_import_guard.sitecustomize import IMPORTED_EXIT_CODE
from tests.support.processes.live_service import LiveService
from tests.support.processes.process_host import ProcessHost, stop_cleanly, wait_for_exit_code
from tests.support.processes.separate_roles import WITHOUT_LITELLM, SeparateRoles
from tests.support.processes.turnlog_up import run_turnlog_up
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.turn_events import TurnCompleted

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(400),
    pytest.mark.slow("processes of the service start, stop and recover"),
]


async def start_streaming_turn(
    service: LiveService, provider: OpenAIServer
) -> tuple[str, asyncio.Event]:
    """Start a turn whose model has sent one token; return its session and the gate it waits for."""
    gate, exchange_count = asyncio.Event(), len(provider.exchanges)
    provider.queue_behaviours(ModelAnswer(gates={1: gate}))
    session = await service.open_session()
    await service.submit_turn(session)
    await provider.wait_for_exchange(exchange_count + 1)
    async with service.watch_turn(session) as watched:
        await wait_for_token(watched)
    return session, gate


async def wait_for_token(watched: StreamingResponse) -> None:
    """Read a stream until its first token; frames of progress may come before it."""
    async for event in watched.iterate_events():
        if event.name == "token":
            return
    raise AssertionError("the stream ended without a token")


async def assert_handed_back(service: LiveService, session: str) -> None:
    """Check that a turn was handed back, resumed and answered once."""
    await service.wait_for_event(session, TurnCompleted)
    first, second = await service.list_events_of_type(session, AttemptEnded)
    assert (first.outcome, first.fault and first.fault.code) == ("cancelled", "handed-back")
    assert first.cost.micro_dollars
    assert (second.attempt, second.outcome) == (2, "answered")
    assert len(await service.list_events_of_type(session, TurnCompleted)) == 1


@pytest.mark.promise("P20")
async def test_shutdown_finishes_turns_in_time_and_hands_back_the_rest(
    host: ProcessHost, provider: OpenAIServer
) -> None:
    async with run_turnlog_up(host) as first:
        slow, _ = await start_streaming_turn(first.service, provider)
        quick, gate = await start_streaming_turn(first.service, provider)
        first.process.terminate_process()
        gate.set()
        assert await wait_for_exit_code(first.process) == 0
        assert not first.ready_file.exists()
    async with run_turnlog_up(host) as second:
        await assert_handed_back(second.service, slow)
        (only,) = await second.service.list_events_of_type(quick, AttemptEnded)
        assert (only.attempt, only.outcome) == (1, "answered")


@pytest.mark.promise("P20")
async def test_each_role_exits_during_a_streaming_turn_and_nothing_is_lost(
    separate: SeparateRoles,
) -> None:
    service = separate.service
    worker = await separate.start_worker()
    session, _ = await start_streaming_turn(service, separate.provider)
    async with service.watch_turn(session) as watched:
        await wait_for_token(watched)
        await stop_cleanly(separate.gateway)
        await watched.read_all()
        assert not watched.is_unfinished, "the stream was cut, not ended"
    await stop_cleanly(separate.projector)
    await stop_cleanly(worker)
    # The worker, which loads longest, is last: when it has answered, the others have started.
    await separate.start_projector()
    await separate.start_gateway()
    await separate.start_worker()
    await assert_handed_back(service, session)
    (call,) = await service.list_calls(session)
    assert [each["outcome"] for each in call["attempts"]] == ["cancelled", "answered"]


async def test_only_the_worker_imports_litellm(separate: SeparateRoles) -> None:
    """Gateway and projector would not have lived through these tests, nor those of crashes."""
    assert (separate.gateway.returncode, separate.projector.returncode) == (None, None)
    worker = await separate.start_role("worker", WITHOUT_LITELLM)
    assert await wait_for_exit_code(worker) == IMPORTED_EXIT_CODE
