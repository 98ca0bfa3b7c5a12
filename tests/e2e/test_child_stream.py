"""The progress of children in their parent's stream, on a real NATS server."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent_programs.children.test_child_progress import (
    build_answers,
    is_done,
    is_text_of,
    list_children,
    read_until,
)
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("turns of a coordinator and its children run on a service of its own"),
]


async def test_reconnecting_client_gets_the_present_state_of_a_child_from_stored_tokens(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    gate = asyncio.Event()
    thinker = ModelAnswer(tokens=("A boat ", "is work."), gates={1: gate})
    provider.choose_behaviour = build_answers(thinker)
    http = up.service.http
    form = {"blueprint": "uderia", "profile": "genie"}
    session = (await http.post("/v1/sessions", json=form)).json()["session"]
    submitted = await http.post(f"/v1/sessions/{session}/turns", json={"text": "A boat?"})
    assert submitted.status_code == 202, submitted.text
    port = http.base_url.port
    assert port is not None
    first = await read_until(port, session, is_text_of("llm_only", 7))
    again = await read_until(port, session, is_text_of("llm_only", 7), first[-1].id)
    assert [each["doing"] for each in list_children(again, "llm_only")] == ["text"]
    gate.set()
    rest = await read_until(port, session, is_done, first[-1].id)
    provider.choose_behaviour = None
    for profile in ("llm_only", "tool_enabled"):
        assert list_children(rest, profile)[-1]["outcome"] == "answered"
