"""Replies with pictures and recordings: their record, and everywhere a client reads it."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import SHIPPED_RETRIES, AgentService, answer_with_text
from tests.agent_programs.shipped.test_odd_answers import build_frames
from tests.services.gateway.streaming.sse_client import open_stream
from tests.services.media.media_samples import PNG
from tests.support.servers.model_behaviours import ModelBehaviour
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.model.call_events import AttemptEnded, CallCompleted
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted
from turnlog.projections.audit.export.bundle_format import build_blob_path

pytestmark = pytest.mark.asyncio(loop_scope="module")

DIGEST = compute_digest(PNG)
LINE = f"(image/png, {len(PNG)} bytes)"
PICTURE = {
    "images": [
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"},
            "index": 0,
        }
    ]
}
ANSWER = build_frames({"content": "Here it is."}, PICTURE, {"content": "A heron."})
REPLY = f"Here it is.\n{LINE}\nA heron."


async def draw_picture(
    platform: AgentService, answer: ModelBehaviour = ANSWER
) -> tuple[str, dict[str, Any]]:
    """Run a turn whose reply has a picture; return the session and the settled turn."""
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    turn = await platform.submit_turn(session, answer, text="Draw a heron.")
    assert turn["status"] == "completed", turn
    return session, turn


async def test_picture_of_a_reply_is_stored_and_named_by_its_event(platform: AgentService) -> None:
    session, turn = await draw_picture(platform)
    assert turn["reply"] == REPLY
    (part,) = turn["reply_parts"]
    assert (part["kind"], part["digest"], part["media_type"]) == ("image", DIGEST, "image/png")
    assert (part["width"], part["height"], part["size"]) == (1, 1, len(PNG))
    assert REPLY[part["at"] :].startswith(LINE)
    (completed,) = await platform.load_events(session, TurnCompleted)
    assert [each.digest for each in completed.parts] == [DIGEST]
    picture = await platform.http.get(f"/v1/blobs/{DIGEST}")
    assert (picture.content, picture.headers["content-type"]) == (PNG, "image/png")
    await platform.complete_turn(session, answer_with_text("Grey."), text="Which colour is it?")
    assert {"role": "assistant", "content": REPLY} in platform.bodies[-1]["messages"]
    report = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert (report["findings"], report["reproduction"]) == ([], "reproduced")


async def test_stored_picture_of_a_reply_that_is_gone_is_a_finding(platform: AgentService) -> None:
    session, _ = await draw_picture(platform)
    media = platform.backend.media.media
    whole = media.pop((platform.gateway.tenant, DIGEST))
    report = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    media[platform.gateway.tenant, DIGEST] = whole
    assert [each["detail"] for each in report["findings"]] == [
        f"it names media {DIGEST}: it is gone"
    ]


async def test_stream_has_an_event_for_the_picture_before_its_end(platform: AgentService) -> None:
    _, turn = await draw_picture(platform)
    port = platform.http.base_url.port
    assert port is not None
    async with open_stream(port, turn["stream"]) as watched:
        events = await watched.read_all()
    assert [each.name for each in events][-2:] == ["part", "done"]
    assert "".join(each.json["text"] for each in events if each.name == "token") == REPLY
    sent = events[-2].json
    assert (sent["digest"], sent["at"], sent["size"]) == (DIGEST, REPLY.index(LINE), len(PNG))
    async with open_stream(port, turn["stream"], last_id=events[-2].id) as again:
        assert [each.name for each in await again.read_all()] == ["part", "done"]
    async with open_stream(port, turn["stream"], last_id=events[-1].id) as over:
        assert await over.read_all() == []


async def test_picture_of_a_withheld_reply_is_withheld_too(platform: AgentService) -> None:
    session, _ = await draw_picture(platform)
    path = f"/v1/sessions/{session}/history"
    (turn,) = (await platform.fetch_json(path))["turns"]
    assert [each["digest"] for each in turn["reply_parts"]] == [DIGEST]
    form = {"turn": 1, "reason": "it shows a face"}
    done = await platform.http.post(f"/v1/sessions/{session}/redactions", json=form)
    assert done.is_success, done.text
    for shown in (path, f"{path}?at=6", f"/v1/sessions/{session}/events?limit=100"):
        answer = await platform.http.get(shown)
        assert answer.is_success
        assert DIGEST not in answer.text


async def test_picture_beside_a_forbidden_text_is_named_in_the_withheld_blob_alone(
    platform: AgentService,
) -> None:
    rule = "  safety: {rules: [{name: no-herons, pattern: heron}]}\n"
    platform.copy_shipped_blueprint(
        "uderia", "uderia-no-herons", {SHIPPED_RETRIES: SHIPPED_RETRIES + rule}
    )
    session = await platform.open_shipped_session(
        "uderia-no-herons", attributes={}, profile="llm_only"
    )
    await platform.submit_turn(session, ANSWER)
    (redacted,) = await platform.load_events(session, ReplyRedacted)
    assert redacted.withheld is not None
    blob = platform.backend.blobs.blobs[platform.gateway.tenant, redacted.withheld]
    assert DIGEST.encode() in blob
    events = await platform.http.get(f"/v1/sessions/{session}/events?limit=100&stored=true")
    assert DIGEST not in events.text


async def test_picture_of_an_answer_that_broke_off_stays_with_its_attempt(
    platform: AgentService,
) -> None:
    half = build_frames({"content": "Here:"}, PICTURE, finish="error")
    session, turn = await draw_picture(platform, half)
    assert turn["reply"] == "An answer."
    first, _ = await platform.load_events(session, AttemptEnded)
    assert first.partial == PlainText(text=f"Here:\n{LINE}")
    assert [each.digest for each in first.parts] == [DIGEST]


async def test_picture_of_an_answer_with_tool_calls_stays_with_its_call(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_loop_blueprint())
    function = {"name": "shop_look", "arguments": "{}"}
    called = {"tool_calls": [{"index": 0, "id": "a", "function": function}]}
    asked = build_frames({"content": "I look."}, PICTURE, called, finish="tool_calls")
    await platform.complete_turn(session, asked, answer_with_text("There."))
    answered = (await platform.load_events(session, CallCompleted))[0]
    assert [each.digest for each in answered.parts] == [DIGEST]
    asked_with = next(each for each in platform.bodies[-1]["messages"] if each.get("tool_calls"))
    assert asked_with["content"] == f"I look.\n{LINE}"


async def test_recording_is_kept_beside_its_transcript(platform: AgentService) -> None:
    spoken = [{"id": "a", "transcript": "Good "}, {"data": b64encode(b"\0\1" * 900).decode()}]
    frames = build_frames(*({"audio": each} for each in (*spoken, {"transcript": "day."})))
    _, turn = await draw_picture(platform, frames)
    assert turn["reply"] == "Good day.\n(audio/wav, 1844 bytes)"
    assert [each["kind"] for each in turn["reply_parts"]] == ["audio"]


async def test_what_if_assembles_prompts_with_pictures_again(platform: AgentService) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    part = {"type": "image", "data": b64encode(PNG).decode()}
    await platform.complete_turn(session, ANSWER, text=[part, {"type": "text", "text": "This?"}])
    await platform.complete_turn(session, answer_with_text("Grey."))
    form = {"sessions": [session], "model": "openai/gpt-4o-mini"}
    answer = await platform.http.post("/v1/what-if", json=form)
    totals = json.loads(answer.text.splitlines()[-1])
    assert (totals["calls"], totals["again"], totals["refused"]) == (2, 2, [])
    # It counts a picture as 33 times as many tokens as others do.
    assert totals["after"]["tokens"] - totals["before"]["tokens"] > 8_000


async def test_question_has_pictures_and_so_has_its_answer(platform: AgentService) -> None:
    platform.provider.queue_behaviours(ANSWER)
    form = {"conversation_id": "c", "client_id": "bank", "nickname": "Ada"}
    before = set(platform.backend.log.sessions)
    part = {"type": "image", "data": b64encode(PNG).decode(), "name": "bird.png"}
    asked = {"question": "What is this?", "parts": [part], **form}
    answer = await platform.http.post("/v1/ask", json=asked)
    assert answer.status_code == 200, answer.text
    [(_, session)] = set(platform.backend.log.sessions) - before
    platform.opened_sessions.append(session)
    (submitted,) = await platform.load_events(session, TurnSubmitted)
    assert submitted.text == PlainText(text="What is this?")
    assert [(each.digest, each.name, each.at) for each in submitted.parts] == [
        (DIGEST, "bird.png", 0)
    ]
    assert (answer.json()["answer"], answer.json()["reply_parts"][0]["digest"]) == (REPLY, DIGEST)
    unknown = {"type": "image", "digest": compute_digest("never uploaded")}
    refused = await platform.http.post("/v1/ask", json={**asked, "parts": [unknown]})
    problem = refused.json()
    assert (problem["code"], problem["field"]) == ("unknown-blob", "parts.0.digest")


@pytest.mark.slow("the verifier of the bundle is a program of its own")
async def test_bundle_has_the_picture_and_its_verifier_checks_it(
    platform: AgentService, tmp_path: Path
) -> None:
    session, _ = await draw_picture(platform)
    await platform.complete_turn(session, answer_with_text("Grey."))
    bundle = await platform.http.get(f"/v1/sessions/{session}/export?format=bundle")
    ZipFile(io.BytesIO(bundle.content)).extractall(tmp_path)
    command = [sys.executable, "-I", "-S", "verify.py", "--prompt", session, "2.1"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 6, printed.decode()
    assert json.dumps(REPLY) in printed.decode()
    picture = tmp_path / build_blob_path(DIGEST)
    assert picture.read_bytes() == PNG
    picture.write_bytes(PNG + b"!")
    again = await asyncio.create_subprocess_exec(
        *command[:4], cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await again.communicate()
    assert DIGEST in printed.decode()
    assert again.returncode == 5
