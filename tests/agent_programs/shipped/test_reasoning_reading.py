"""What a model reasons, as clients, history, bundles and operators get it."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import SHIPPED_RETRIES, AgentService, answer_with_text
from tests.agent_programs.shipped.test_odd_answers import build_frames
from tests.services.gateway.streaming.sse_client import open_stream
from tests.support.servers.model_behaviours import RawFrames
from turnlog.events.content import PlainText, get_plain_text
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.turn_events import TurnCompleted

pytestmark = pytest.mark.asyncio(loop_scope="module")

THOUGHT = {"reasoning_content": "Is it \U0001f600 or not?"}

ANSWER = build_frames(THOUGHT, {"content": "It is."})


async def open_plain_session(platform: AgentService) -> str:
    return await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")


def pause_after_first(answer: RawFrames, go_on: asyncio.Event) -> RawFrames:
    """Return an answer that waits after its first chunk."""
    first, *rest = answer.frames
    return RawFrames((first, go_on, *rest))


async def test_reasoning_is_streamed_to_a_client_that_asks_for_it_and_resumes(
    platform: AgentService,
) -> None:
    go_on = asyncio.Event()
    platform.provider.queue_behaviours(pause_after_first(ANSWER, go_on))
    session = await open_plain_session(platform)
    submitted = await platform.http.post(f"/v1/sessions/{session}/turns", json={"text": "Is it?"})
    assert submitted.status_code == 202
    port, path = platform.http.base_url.port, submitted.json()["stream"]
    assert port is not None
    async with open_stream(port, f"{path}?reasoning=true") as watched:
        events = watched.iterate_events()
        while (event := await anext(events)).name != "reasoning":
            pass
    assert event.json["text"] == THOUGHT["reasoning_content"]
    assert (event.json["call"], event.json["offset"]) == ("1.1", 0)
    assert event.id == "1.1.0.r15"
    go_on.set()
    async with open_stream(port, f"{path}?reasoning=true", last_id=event.id) as again:
        rest = await again.read_all()
    assert [each.name for each in rest if each.name != "progress"] == ["token", "done"]
    async with open_stream(port, path) as plain:
        whole = await plain.read_all()
    assert [each.name for each in whole] == ["token", "done"]
    assert whole[0].id == "1.1.6"


async def test_history_has_the_reasoning_of_a_reply_where_it_is_asked_for(
    platform: AgentService,
) -> None:
    session = await open_plain_session(platform)
    await platform.complete_turn(session, ANSWER)
    await platform.complete_turn(session, answer_with_text("Yes."))
    path = f"/v1/sessions/{session}/history"
    plain = await platform.fetch_json(path)
    assert [each["reasoning"] for each in plain["turns"]] == [None, None]
    asked = await platform.fetch_json(path, reasoning="true")
    assert [each["reasoning"] for each in asked["turns"]] == [THOUGHT["reasoning_content"], None]


async def test_reasoning_of_a_withheld_reply_is_withheld_too(platform: AgentService) -> None:
    session = await open_plain_session(platform)
    await platform.complete_turn(session, ANSWER)
    redaction = {"turn": 1, "reason": "it is private", "replacement": "(Removed.)"}
    done = await platform.http.post(f"/v1/sessions/{session}/redactions", json=redaction)
    assert done.is_success, done.text
    events = await platform.fetch_json(f"/v1/sessions/{session}/events")
    assert "or not?" not in json.dumps(events, ensure_ascii=False)
    history = await platform.fetch_json(f"/v1/sessions/{session}/history", reasoning="true")
    assert history["turns"][0]["reasoning"] is None
    stored = await platform.load_events(session, TurnCompleted)
    assert stored[0].answer is not None
    assert "or not?" in (get_plain_text(stored[0].answer.reasoning) or "")


async def test_reasoning_that_a_rule_forbids_is_neither_streamed_nor_recorded(
    platform: AgentService,
) -> None:
    rule = "  safety: {rules: [{name: no-names, pattern: Example}]}\n"
    platform.copy_shipped_blueprint(
        "uderia", "uderia-guarded", {SHIPPED_RETRIES: SHIPPED_RETRIES + rule}
    )
    session = await platform.open_shipped_session(
        "uderia-guarded", attributes={}, profile="llm_only"
    )
    forbidden = build_frames({"reasoning_content": "Ms. Example."}, {"content": "Good day."})
    submitted = await platform.submit_turn(session, forbidden)
    assert (submitted["status"], submitted["reply"]) == ("completed", "Good day.")
    await platform.complete_turn(session, ANSWER)
    first, second = await platform.load_events(session, TurnCompleted)
    assert first.answer is not None
    assert second.answer is not None
    assert first.answer.reasoning == PlainText(text='{"withheld":"no-names"}')
    assert json.loads(get_plain_text(second.answer.reasoning) or "") == THOUGHT
    stored = await platform.backend.tokens.read_token_events(platform.gateway.tenant, session, 1)
    assert "reasoning" not in {each.event.kind for each in stored}


async def test_reasoning_of_an_attempt_that_broke_off_is_recorded_with_it(
    platform: AgentService,
) -> None:
    session = await open_plain_session(platform)
    half = build_frames(THOUGHT, {"content": "It"}, finish="error")
    await platform.complete_turn(session, half, ANSWER)
    first, _ = await platform.load_events(session, AttemptEnded)
    assert (first.outcome, get_plain_text(first.partial)) == ("failed", "It")
    assert json.loads(get_plain_text(first.reasoning) or "") == THOUGHT


@pytest.mark.slow("the verifier of the bundle is a program of its own")
async def test_bundle_with_reasoning_is_verified_by_its_own_verifier(
    platform: AgentService, tmp_path: Path
) -> None:
    session = await platform.open_session(build_loop_blueprint())
    signed = {"extra_content": {"google": {"thought_signature": "sig"}}}
    function = {"name": "shop_look", "arguments": "{}"}
    called = {"index": 0, "id": "a", "function": function, **signed}
    asked = build_frames(
        {"reasoning_content": "I should look."},
        {"content": "Wait. "},
        {"tool_calls": [called, {"index": 1, "id": "b", "function": function}]},
        finish="tool_calls",
    )
    await platform.complete_turn(session, asked, answer_with_text("There."))
    bundle = await platform.http.get(f"/v1/sessions/{session}/export?format=bundle")
    ZipFile(io.BytesIO(bundle.content)).extractall(tmp_path)
    command = [sys.executable, "-I", "-S", "verify.py", "--prompt", session, "1.2"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 6, printed.decode()
    assert "2 prompts as they were sent" in printed.decode()
    assert '"reasoning_content": "I should look."' in printed.decode()
    assert '"thought_signature": "sig"' in printed.decode()
