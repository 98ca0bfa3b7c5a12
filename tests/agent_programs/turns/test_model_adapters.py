"""The same turns through litellm and by the direct adapter, over HTTP, on a shipped blueprint."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.agent_programs.agent_service import (
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_text,
)
from tests.support.servers.model_behaviours import ModelRefusal
from tests.support.sessions.reproduction_checks import verify_session_log
from turnlog.events.codec import decode_event
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.services.platform.process_settings import ModelAdapter
from turnlog.services.worker.model.model_router import ModelRouter

pytestmark = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def use_adapter(platform: AgentService, adapter: ModelAdapter) -> AsyncGenerator[None]:
    """Have the worker of a service call its models by an adapter."""
    worker, router = platform.worker, ModelRouter(adapter, os.environ)
    before = worker.model, worker.contexts
    worker.model = router
    worker.contexts = replace(worker.contexts, sends_body=router.is_sent_as_recorded)
    try:
        yield
    finally:
        worker.model, worker.contexts = before
        await router.close()


async def play_turns(platform: AgentService) -> str:
    """Play two turns of a shipped blueprint; the model refuses the first call once."""
    session = await platform.open_shipped_session("assistant")
    busy = ModelRefusal(status=429, headers={"retry-after": "0"})
    await platform.complete_turn(session, busy, answer_with_text("At ", "the ford."), text="Where?")
    await platform.complete_turn(session, answer_with_text("At dusk."), text="And when?")
    return session


async def list_facts(platform: AgentService, session: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a session without its own times and without what proves the bytes."""
    return [
        (each.envelope.type, dict(drop_own_values(json.loads(each.stored)["data"])))
        for each in await platform.load_recorded_events(session)
    ]


def drop_own_values(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, each in value.items():
        if name not in {"body_digest", "timings", "at"}:
            is_object = isinstance(each, dict)
            yield name, dict(drop_own_values(cast("dict[str, Any]", each))) if is_object else each


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_both_adapters_record_the_same_events_and_the_direct_one_matches_body_digests(
    platform: AgentService,
) -> None:
    facts: list[list[tuple[str, dict[str, Any]]]] = []
    for adapter in ("litellm", "direct"):
        async with use_adapter(platform, adapter):
            session = await play_turns(platform)
        facts.append(await list_facts(platform, session))
    assert facts[0] == facts[1]
    calls = await platform.load_events(session, ContextAssembled)
    refused, *answered = platform.provider.exchanges[3:]
    assert refused.raw == answered[0].raw, "the attempt after the refusal sends the same bytes"
    assert [call.body_digest for call in calls] == [compute_digest(each.raw) for each in answered]
    for call, exchange in zip(("1.1", "2.1"), answered, strict=True):
        prompt = await platform.fetch_prompt(session, call)
        assert prompt["messages"] == exchange.body["messages"]
        assert prompt["body_digest"] == compute_digest(exchange.raw)


async def test_tool_rounds_are_sent_byte_for_byte(platform: AgentService) -> None:
    async with use_adapter(platform, "direct"):
        session = await platform.open_session()
        await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    sent = [compute_digest(each.raw) for each in platform.provider.exchanges]
    calls = await platform.load_events(session, ContextAssembled)
    assert [call.body_digest for call in calls] == sent
    assert len(sent) == len(TWO_STEP_ANSWERS)


async def test_changed_body_digest_is_detected_by_both_verifiers(
    platform: AgentService,
) -> None:
    async with use_adapter(platform, "direct"):
        session = await play_turns(platform)
    events = list(await platform.load_recorded_events(session))
    blobs = {digest: blob for (_, digest), blob in platform.backend.blobs.blobs.items()}
    assert list(verify_session_log(events, blobs)) == []
    place = next(n for n, each in enumerate(events) if isinstance(each.event, ContextAssembled))
    events[place] = change_body_digest(events[place])
    found = [wrong for wrong in verify_session_log(events, blobs) if "body" in wrong]
    assert len(found) == 2, "the verifier of the service, and the stand-alone one"


def change_body_digest(recorded: RecordedEvent) -> RecordedEvent:
    call = recorded.event
    assert isinstance(call, ContextAssembled)
    assert call.body_digest is not None
    stored = recorded.stored.replace(call.body_digest.encode(), compute_digest("?").encode())
    return decode_event(stored, recorded.stream_sequence)
