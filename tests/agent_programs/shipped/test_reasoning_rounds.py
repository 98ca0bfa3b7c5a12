"""Models that want their reasoning back beside their tool calls, on the shipped `agent`.

The server refuses a request whose assistant's messages lack it, as those of the providers do.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import AgentService
from tests.agent_programs.shipped.test_odd_answers import build_frames
from tests.support.servers.model_behaviours import ModelBehaviour, ModelRefusal
from turnlog.events.content import get_plain_text
from turnlog.events.model.call_events import CallCompleted
from turnlog.events.model.tool_events import ToolCalled
from turnlog.services.worker.model.direct_model import DirectModel
from turnlog.services.worker.tools.mcp_servers import McpToolServers

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow("each test starts the sample server of the blueprint, a program of its own"),
]

Fields = Mapping[str, object]

BLOCKS = [
    {"type": "thinking", "thinking": "I should look.", "signature": "sig"},
    {"type": "redacted_thinking", "data": "xyz"},
]
DETAILS = [
    {"type": "reasoning.text", "text": "I should look.", "index": 0},
    {"type": "reasoning.encrypted", "data": "abc", "index": 1},
]
OTHER_MODEL = "openai/egret"
SIGNED = {"extra_content": {"google": {"thought_signature": "sig"}}}


@pytest_asyncio.fixture(loop_scope="module", params=["litellm", "direct"])
async def harbour(
    platform: AgentService, request: pytest.FixtureRequest
) -> AsyncIterator[AgentService]:
    """The service with the sample server of the blueprint and one of the adapters."""
    worker = platform.worker
    model, contexts = worker.model, worker.contexts
    worker.servers = servers = McpToolServers()
    if request.param == "direct":
        worker.model = DirectModel({**os.environ, "OPENAI_API_BASE": platform.provider.url})
        worker.contexts = replace(contexts, sends_body=bool)
    yield platform
    if isinstance(worker.model, DirectModel):
        await worker.model.close()
    worker.model, worker.contexts = model, contexts
    await servers.close()


def list_calls_messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [each for each in body["messages"] if each.get("tool_calls")]


class ThinkingServer:
    """Answers two rounds of tool calls with reasoning, and wants both back as they were."""

    def __init__(self, reasoning: Fields, signature: Fields) -> None:
        self.reasoning = reasoning
        self.signature = signature

    def choose(self, body: dict[str, object]) -> ModelBehaviour:
        asked = list_calls_messages(body)
        if not all(map(self.has_reasoning, asked)):
            message = "The `reasoning_content` in the thinking mode must be passed back to the API."
            return ModelRefusal(status=400, message=message, type="invalid_request_error")
        if len(asked) == 2:
            return build_frames({"reasoning_content": "Enough."}, {"content": "The 10:00 sails."})
        function = {"name": "harbour_tides", "arguments": "{}"}
        called = {"index": 0, "id": f"call_{len(asked)}", "function": function, **self.signature}
        # litellm passes on what it does not know beside a text only
        text = {"reasoning_content": "I should look."} if self.reasoning else {}
        reasoned = {**text, **self.reasoning}
        return build_frames(reasoned, {"tool_calls": [called]}, finish="tool_calls")

    def has_reasoning(self, message: Mapping[str, Any]) -> bool:
        (call,) = message["tool_calls"]
        pairs = [*((message, each) for each in self.reasoning.items())]
        pairs += [(call, each) for each in self.signature.items()]
        return all(holder.get(name) == value for holder, (name, value) in pairs)


@pytest.mark.parametrize(
    ("reasoning", "signature"),
    [
        pytest.param({"reasoning_content": "I should look."}, {}, id="text"),
        pytest.param({"thinking_blocks": BLOCKS}, {}, id="blocks"),
        pytest.param({"reasoning_details": DETAILS}, {}, id="details"),
        pytest.param({}, SIGNED, id="signature of a call"),
        pytest.param({"reasoning_content": "I should look."}, SIGNED, id="text and signature"),
    ],
)
async def test_each_round_is_sent_back_with_what_was_reasoned_before_it(
    harbour: AgentService, reasoning: Fields, signature: Fields
) -> None:
    server = ThinkingServer(reasoning, signature)
    harbour.provider.choose_behaviour = server.choose
    session = await harbour.open_shipped_session("agent", attributes={"instructions": "Be brief."})
    await harbour.complete_turn(session, text="Can I sail at ten?")
    assert len(list_calls_messages(harbour.bodies[-1])) == 2
    rounds = await harbour.load_events(session, CallCompleted)
    assert [read_fields(each.reasoning) for each in rounds] == [
        reasoning or None,
        reasoning or None,
        {"reasoning_content": "Enough."},
    ]
    called = await harbour.load_events(session, ToolCalled)
    assert [read_fields(each.signature) for each in called] == [signature or None] * 2
    prompt = await harbour.fetch_prompt(session, "1.3")
    parts = [each for each in prompt["manifest"]["parts"] if each["layer"] == "reasoning"]
    assert len(parts) == 2 * (bool(reasoning) + bool(signature))
    assert {each["role"] for each in parts} == {"reasoning"}
    assert all(each["component"] == "reasoning" and each["tokens"] for each in parts)


def read_fields(content: object) -> object:
    text = get_plain_text(cast("Any", content))
    return None if text is None else json.loads(text)


async def test_reasoning_of_an_earlier_turn_is_not_sent_again(harbour: AgentService) -> None:
    server = ThinkingServer({"reasoning_content": "I should look."}, {})
    harbour.provider.choose_behaviour = server.choose
    session = await harbour.open_shipped_session("agent", attributes={"instructions": "Be brief."})
    await harbour.complete_turn(session, text="Can I sail at ten?")
    harbour.provider.choose_behaviour = None
    await harbour.complete_turn(session, build_frames({"content": "Yes."}), text="And at eleven?")
    assert "I should look." not in json.dumps(harbour.bodies[-1])


async def open_keeping_session(harbour: AgentService, mode: str = "keep") -> str:
    """Open a session of the shipped `agent` with a history that keeps reasoning."""
    edits = {
        "  recent: {}": f"  recent: {{reasoning: {mode}}}",
        "policies:\n": f"models: {{allow: [{OTHER_MODEL}]}}\n\npolicies:\n",
    }
    name = f"{mode.replace('_', '-')}-agent"
    harbour.copy_shipped_blueprint("agent", name, edits)
    return await harbour.open_shipped_session(name, attributes={"instructions": "Be brief."})


def find_reply(body: Mapping[str, Any], text: str) -> dict[str, Any]:
    messages: list[dict[str, Any]] = body["messages"]
    (reply,) = [each for each in messages if each["content"] == text]
    return reply


SAID_AT_NOON = build_frames({"reasoning_content": "High tide."}, {"content": "Not at noon."})

SAID = build_frames({"reasoning_content": "Low tide."}, {"content": "At ten."})


async def test_kept_reasoning_is_sent_to_the_model_that_wrote_it_and_to_no_other(
    harbour: AgentService,
) -> None:
    session = await open_keeping_session(harbour)
    await harbour.complete_turn(session, SAID, text="When can I sail?")
    await harbour.complete_turn(session, build_frames({"content": "Yes."}), text="And at eleven?")
    assert find_reply(harbour.bodies[-1], "At ten.")["reasoning_content"] == "Low tide."
    switched = await harbour.http.post(
        f"/v1/sessions/{session}/profile", json={"model": OTHER_MODEL}
    )
    assert switched.status_code == 200, switched.text
    await harbour.complete_turn(session, build_frames({"content": "No."}), text="At noon?")
    assert "Low tide." not in json.dumps(harbour.bodies[-1])
    report = await harbour.fetch_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "reproduced"), report
    difference = await harbour.fetch_json(f"/v1/sessions/{session}/calls/2.1/diff/3.1")
    (change,) = [each for each in difference["changes"] if each["layer"] == "reasoning"]
    assert change["what"] == "removed"


SIGNAL = {
    "index": 0,
    "id": "call_1",
    "function": {"name": "transition_phase", "arguments": '{"signal": "done"}'},
}


@pytest.mark.parametrize(
    ("mode", "reasoning", "sent"),
    [
        pytest.param("keep", {"reasoning_content": "Low tide."}, None, id="keep"),
        pytest.param("keep_all", {"reasoning_content": "Low tide."}, "Low tide.", id="keep all"),
        pytest.param("keep_all", {"thinking_blocks": BLOCKS}, None, id="keep all, signed"),
    ],
)
async def test_reasoning_before_a_reply_with_tool_calls_is_kept_where_the_blueprint_says_so(
    harbour: AgentService, mode: str, reasoning: Fields, sent: str | None
) -> None:
    session = await open_keeping_session(harbour, mode)
    # litellm passes on what it does not know beside a text only
    answer = build_frames(
        {**reasoning, "content": "At ten."}, {"tool_calls": [SIGNAL]}, finish="tool_calls"
    )
    await harbour.complete_turn(session, answer, text="When can I sail?")
    assert len(await harbour.load_events(session, ToolCalled)) == 1
    await harbour.complete_turn(session, SAID_AT_NOON, text="And at noon?")
    await harbour.complete_turn(session, build_frames({"content": "Yes."}), text="Sure?")
    body = harbour.bodies[-1]
    assert [each for each in body["messages"] if each["role"] != "system"] == [
        {"role": "user", "content": "When can I sail?"},
        {"role": "assistant", "content": "At ten."} | ({"reasoning_content": sent} if sent else {}),
        {"role": "user", "content": "And at noon?"},
        {"role": "assistant", "content": "Not at noon.", "reasoning_content": "High tide."},
        {"role": "user", "content": "Sure?"},
    ]
    prompt = await harbour.fetch_prompt(session, "3.1")
    read_back = [each | each.pop("reasoning", {}) for each in prompt["messages"]]
    assert read_back == body["messages"]
    rules = {
        each["rule"]
        for each in prompt["manifest"]["parts"]
        if each["layer"] == "reasoning" and each["treatment"] == "dropped"
    }
    assert rules == (
        {"signed with tool calls that are not sent"} if "blocks" in str(reasoning) else set()
    )
    report = await harbour.fetch_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "reproduced"), report


async def test_redacting_a_reply_takes_its_reasoning_out_of_later_prompts(
    harbour: AgentService,
) -> None:
    session = await open_keeping_session(harbour)
    await harbour.complete_turn(session, SAID, text="When can I sail?")
    form = {"turn": 1, "reason": "a guess", "replacement": "(Withheld.)"}
    await harbour.http.post(f"/v1/sessions/{session}/redactions", json=form)
    await harbour.complete_turn(session, build_frames({"content": "Yes."}), text="And at eleven?")
    assert find_reply(harbour.bodies[-1], "(Withheld.)")["role"] == "assistant"
    assert "Low tide." not in json.dumps(harbour.bodies[-1])
    prompt = await harbour.fetch_prompt(session, "2.1")
    assert not [each for each in prompt["manifest"]["parts"] if each["layer"] == "reasoning"]
