"""A service accepts work before litellm is loaded, and loads it only for models that need it."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.support.processes.process_host import ProcessHost
from tests.support.processes.separate_roles import (
    IMPORT_GUARD_FOLDER,
    MODEL_NAME,
    WITHOUT_LITELLM,
)
from tests.support.processes.turnlog_up import run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.content import compute_digest
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted, ContextAssembled
from turnlog.events.model.turn_events import TurnCompleted

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.slow("processes of the service start, stop and recover")
async def test_work_is_accepted_while_litellm_loads(host: ProcessHost) -> None:
    fifo = host.folder / "litellm_import_guard"
    os.mkfifo(fifo)
    variables = {"PYTHONPATH": str(IMPORT_GUARD_FOLDER), "DOOR": str(fifo)}
    log = host.folder / "up.log"
    async with (
        OpenAIServer() as provider,
        run_turnlog_up(
            host, output_file=log, variables=variables | build_model_settings(provider)
        ) as up,
    ):
        assert (await up.service.get_json("/readyz"))["ready"]
        session = await up.service.open_session()
        await up.service.submit_turn(session)
        await up.service.wait_for_event(session, AttemptStarted)
        # The terminal says what the turn waits for.
        said = await asyncio.to_thread(log.read_text)
        assert ("model-library-loading" in said, "model-library-loaded" in said) == (True, False)
        # The import of litellm waits in the import guard, which nothing has released yet.
        await asyncio.to_thread(fifo.write_bytes, b"")
        assert (await up.service.wait_for_event(session, TurnCompleted)).turn == 1


async def test_direct_model_call_completes_without_litellm(
    host: ProcessHost,
) -> None:
    async with OpenAIServer() as provider:
        settings = build_model_settings(provider) | {"TURNLOG_MODEL_ADAPTER": "direct"}
        async with run_turnlog_up(host, variables=WITHOUT_LITELLM | settings) as up:
            # Its budget counts with a vocabulary of litellm, and its cost is in litellm's table.
            session = await up.service.open_session("uderia")
            await up.service.submit_turn(session)
            await up.service.wait_for_event(session, TurnCompleted)
            call = await up.service.wait_for_event(session, ContextAssembled)
            ended = await up.service.wait_for_event(session, AttemptEnded)
        (exchange,) = provider.exchanges
    assert call.body_digest == compute_digest(exchange.raw)
    assert ended.cost.price == "exact"


def build_model_settings(provider: OpenAIServer) -> dict[str, str]:
    return {
        "OPENAI_API_BASE": provider.url,
        "OPENAI_API_KEY": "sk-of-nobody",
        "TURNLOG_MODEL": MODEL_NAME,
    }
