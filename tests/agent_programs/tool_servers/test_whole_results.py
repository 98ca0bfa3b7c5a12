"""Results larger than a message: their chunks are verified, and withheld with their reply."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.services.worker.test_calls_with_media import NotedRoom
from turnlog.contract.call_payloads import ToolResultView
from turnlog.events.async_tasks import run_tasks
from turnlog.events.codec import MAX_EVENT_BYTES
from turnlog.events.content import compute_digest
from turnlog.events.model.tool_events import ToolReturned
from turnlog.services.cli.console import print_answer
from turnlog.services.cli.views.tool_result_view import render_tool_result

pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGE = "The boats stayed in.\n" * 60_000


async def run_turn(platform: AgentService, result: str = LARGE) -> tuple[str, ToolReturned]:
    platform.shop.result_text = result
    session = await platform.open_session(build_loop_blueprint())
    await platform.complete_turn(
        session, answer_with_tool_calls(("shop_look", {})), answer_with_text("Very late.")
    )
    (returned,) = await platform.load_events(session, ToolReturned)
    return session, returned


@pytest.mark.parametrize("more", [0, 1])
async def test_result_is_a_blob_as_long_as_one_message_can_hold_it(
    platform: AgentService, more: int
) -> None:
    result = "x" * (MAX_EVENT_BYTES + more)
    session, returned = await run_turn(platform, result)
    assert (returned.outcome, returned.characters) == ("answered", len(result))
    digest = compute_digest(result)
    key = platform.gateway.tenant, digest
    assert (returned.result == digest, key in platform.backend.blobs.blobs) == (not more,) * 2
    assert (returned.whole is not None, key in platform.backend.media.media) == (bool(more),) * 2
    found = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/tools/{returned.id}")
    assert (found["digest"], found["result"]) == (digest, None if more else result)


async def test_whole_result_that_is_gone_or_altered_is_a_finding(platform: AgentService) -> None:
    session, returned = await run_turn(platform)
    assert returned.whole is not None
    key = platform.gateway.tenant, returned.whole.digest
    media = platform.backend.media.media
    whole = media.pop(key)
    path = f"/v1/sessions/{session}/verify"
    (finding,) = (await platform.fetch_json(path))["findings"]
    gone = "completeness", f"it names media {key[1]}: it is gone"
    assert (finding["verdict"], finding["detail"]) == gone
    media[key] = whole.replace(b"boats", b"ships", 1)
    (finding,) = (await platform.fetch_json(path))["findings"]
    altered = "integrity", f"it names media {key[1]}: its bytes have changed"
    assert (finding["verdict"], finding["detail"]) == altered
    media[key] = whole
    assert (await platform.fetch_json(path))["findings"] == []


async def test_digest_of_a_whole_result_is_withheld_with_the_reply(platform: AgentService) -> None:
    session, returned = await run_turn(platform)
    assert returned.whole is not None
    form = {"turn": 1, "reason": "a guess", "replacement": "(Withheld.)"}
    answer = await platform.http.post(f"/v1/sessions/{session}/redactions", json=form)
    assert answer.is_success, answer.text
    shown = await platform.http.get(f"/v1/sessions/{session}/events?limit=100")
    assert returned.whole.digest not in shown.text


async def test_terminal_shows_what_prompts_say_and_where_the_whole_is(
    platform: AgentService, capsys: pytest.CaptureFixture[str]
) -> None:
    session, returned = await run_turn(platform)
    assert returned.whole is not None
    found = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/tools/{returned.id}")
    view = ToolResultView.model_validate(found)
    print_answer(view, render_tool_result(view), "table")
    shown = capsys.readouterr().out
    assert f"{len(LARGE):,} bytes" in shown
    assert "characters; the first 400:" in shown
    assert f"GET/v1/blobs/{returned.whole.digest}" in "".join(shown.split())


async def test_large_result_past_the_limit_of_the_tenant_is_replaced_by_what_stops_it(
    platform: AgentService,
) -> None:
    await platform.gateway.http.put("/v1/media-limit", json={"limit": 10})
    try:
        _, returned = await run_turn(platform, LARGE + "A result of its own.")
    finally:
        await platform.gateway.http.put("/v1/media-limit", json={"limit": None})
    assert (returned.whole, returned.result is not None) == (None, True)
    assert "its result was not stored: of 10 bytes" in str(returned.text)


async def test_result_waits_until_the_worker_has_stored_others(platform: AgentService) -> None:
    """Functions and endpoints are no MCP servers; their results wait before they are judged."""
    room, contexts = NotedRoom(10), platform.worker.contexts
    platform.worker.contexts = replace(contexts, result_room=room)
    try:
        with room.open_share() as held:
            await held.reserve(1)
            async with run_tasks(run_turn(platform, "The boats are out.")) as (running,):
                await asyncio.wait_for(room.is_awaited.wait(), 30)
                held.release()
                _, returned = await running
    finally:
        platform.worker.contexts = contexts
    assert (returned.outcome, room.taken) == ("answered", 0)
