"""Turns with pictures, documents and recordings, on the shipped `assistant` over real HTTP.

The model server refuses a request whose contents are not those of OpenAI's published schema.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.agent_programs.shipped.test_odd_answers import build_frames
from tests.e2e.browser import CHROMIUM, Browser
from tests.services.media.media_samples import PNG, SAMPLES
from tests.support.processes.process_host import (
    ProcessHost,
    run_process_host,
    run_turnlog,
)
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.model_behaviours import ModelAnswer, ModelBehaviour, ModelRefusal
from tests.support.servers.openai_server import OpenAIServer

pytestmark = pytest.mark.asyncio(loop_scope="session")

PDF, WAV = SAMPLES["application/pdf"], SAMPLES["audio/wav"]

ANSWER: Final = ModelAnswer(tokens=("A ", "heron."))


def encode(data: bytes) -> str:
    return b64encode(data).decode()


def build_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{encode(data)}"


DRAWN_ANSWER: Final = build_frames(
    {"content": "Here it is."},
    {"images": [{"type": "image_url", "image_url": {"url": build_url("image/png", PNG)}}]},
)


def is_accepted(piece: dict[str, Any]) -> bool:
    """Return whether a part of a content is one of the published schema."""
    match piece:
        case {"type": "text", "text": str(text), **others}:
            return bool(text) and not others
        case {"type": "image_url", "image_url": {"url": str(url), **others}}:
            return url.startswith("data:image/") and not others and bool(read_url(url))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": "wav" | "mp3"}}:
            return bool(b64decode(data, validate=True))
        case {"type": "file", "file": {"filename": str(), "file_data": str(url)}}:
            return url.startswith("data:application/pdf;base64,") and bool(read_url(url))
        case _:
            return False


def read_url(url: str) -> bytes:
    return b64decode(url.partition(",")[2], validate=True)


def answer_valid_request(body: dict[str, Any]) -> ModelBehaviour:
    """Answer a request whose contents are of the schema, and refuse any other."""
    for message in body["messages"]:
        content: Any = message["content"]
        if not isinstance(content, str) and not all(map(is_accepted, content)):
            return ModelRefusal(status=400, type="invalid_request_error")
    return DRAWN_ANSWER if "Draw" in str(body["messages"][-1]) else ANSWER


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["litellm", "direct"])
async def media_up(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[TurnlogUp, OpenAIServer]]:
    async with OpenAIServer() as server:
        server.choose_behaviour = answer_valid_request
        own = {"TURNLOG_MODEL_ADAPTER": request.param, "TURNLOG_MODEL": "openai/heron"}
        settings = build_settings(server) | own
        del settings["TURNLOG_BLUEPRINTS"]
        folder = tmp_path_factory.mktemp("media")
        host: ProcessHost
        async with run_process_host(folder, settings) as host, run_turnlog_up(host) as up:
            yield up, server


async def run_turn(up: TurnlogUp, session: str, **form: object) -> dict[str, Any]:
    """Submit a turn, and return it settled."""
    answer = await up.service.http.post(f"/v1/sessions/{session}/turns?wait=30", json=form)
    assert answer.status_code == 200, answer.text
    settled: dict[str, Any] = answer.json()
    assert settled["status"] == "completed", str(settled)
    return settled


def get_last_content(server: OpenAIServer) -> Any:  # noqa: ANN401 - JSON of any shape
    body: Any = server.exchanges[-1].body
    return body["messages"][-1]["content"]


async def test_turn_takes_a_picture_a_document_and_a_recording(
    media_up: tuple[TurnlogUp, OpenAIServer],
) -> None:
    up, server = media_up
    session = await up.service.open_session("assistant")
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "data": encode(PNG), "name": "heron.png"},
        {"type": "text", "text": "And these?"},
        {"type": "file", "data": encode(PDF), "media_type": "application/pdf"},
        {"type": "audio", "data": encode(WAV)},
    ]
    await run_turn(up, session, parts=parts)
    first, picture, second, document, sound = get_last_content(server)
    assert (first["text"], second["text"]) == ("What is this?", "\nAnd these?")
    assert read_url(picture["image_url"]["url"]) == PNG
    assert read_url(document["file"]["file_data"]) == PDF
    assert b64decode(sound["input_audio"]["data"]) == WAV
    await run_turn(up, session, text="And its name?")
    body: Any = server.exchanges[-1].body
    question = next(each for each in body["messages"] if isinstance(each["content"], list))
    assert [piece["type"] for piece in question["content"]] == [
        *("text", "image_url", "text", "file", "input_audio"),
    ]
    history = await up.service.get_json(f"/v1/sessions/{session}/history")
    turn = history["turns"][0]
    assert turn["text"] == "What is this?\nAnd these?"
    assert [(each["kind"], each["at"], each["name"]) for each in turn["parts"]] == [
        ("image", 13, "heron.png"),
        ("file", 24, None),
        ("audio", 24, None),
    ]
    assert (turn["parts"][0]["width"], turn["parts"][0]["height"]) == (1, 1)
    report = await up.service.get_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "reproduced"), report
    url = ("--url", str(up.service.http.base_url))
    code, printed, _ = await run_turnlog("history", session, *url)
    assert (code, "heron.png · image/png" in printed) == (0, True), printed
    code, printed, _ = await run_turnlog("prompt", session, "2.1", *url)
    assert (code, "[heron.png]" in printed) == (0, True), printed
    shown = await up.service.get_json(f"/v1/sessions/{session}/calls/2.1/prompt")
    assert shown["reference"]["outcome"] == shown["assembly"]["outcome"] == "reproduced"
    assert turn["parts"][0]["digest"] in str(shown["messages"])
    why = await up.service.get_json(f"/v1/sessions/{session}/calls/2.1/why")
    assert [each["part"]["item"] for each in why["parts"] if each["part"]["layer"] == "media"] == [
        *("heron.png", None, None),
    ]


async def test_turn_takes_parts_in_the_spelling_of_openai(
    media_up: tuple[TurnlogUp, OpenAIServer],
) -> None:
    up, server = media_up
    session = await up.service.open_session("assistant")
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "input_audio", "input_audio": {"data": encode(WAV), "format": "wav"}},
        {
            "type": "file",
            "file": {"file_data": build_url("application/pdf", PDF), "filename": "birds.pdf"},
        },
    ]
    await run_turn(up, session, text=content)
    sent = get_last_content(server)
    assert [piece["type"] for piece in sent] == ["text", "image_url", "input_audio", "file"]
    assert sent[1]["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="
    assert sent[3]["file"]["filename"] == "birds.pdf"


async def test_uploaded_picture_is_named_by_its_digest(
    media_up: tuple[TurnlogUp, OpenAIServer],
) -> None:
    up, server = media_up
    uploaded = await up.service.http.post(
        "/v1/blobs", content=PNG, headers={"content-type": "image/png"}
    )
    session = await up.service.open_session("assistant")
    await run_turn(up, session, parts=[{"type": "image", "digest": uploaded.json()["digest"]}])
    (picture,) = get_last_content(server)
    assert read_url(picture["image_url"]["url"]) == PNG
    assert (await run_turn(up, session, text="And now?"))["reply"] == "A heron."
    report = await up.service.get_json(f"/v1/sessions/{session}/verify")
    assert report["verified"], report


async def test_picture_of_a_reply_is_on_record_and_can_be_named_in_the_next_turn(
    media_up: tuple[TurnlogUp, OpenAIServer],
) -> None:
    up, server = media_up
    session = await up.service.open_session("assistant")
    drawn = await run_turn(up, session, text="Draw a heron.")
    assert drawn["reply"] == f"Here it is.\n(image/png, {len(PNG)} bytes)"
    (part,) = drawn["reply_parts"]
    assert (await up.service.http.get(f"/v1/blobs/{part['digest']}")).content == PNG
    again = [{"type": "image", "digest": part["digest"]}, {"type": "text", "text": "Is it grey?"}]
    await run_turn(up, session, parts=again)
    history = await up.service.get_json(f"/v1/sessions/{session}/history")
    (named,) = history["turns"][1]["parts"]
    # The second turn has a copy under keys of its own, and so another digest.
    assert named["digest"] != part["digest"]
    assert (await up.service.http.get(f"/v1/blobs/{named['digest']}")).content == PNG
    picture, _ = get_last_content(server)
    assert read_url(picture["image_url"]["url"]) == PNG
    report = await up.service.get_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "reproduced"), report
    url = ("--url", str(up.service.http.base_url))
    code, printed, _ = await run_turnlog("history", session, *url)
    digests = (part["digest"], named["digest"])
    assert (code, [printed.count(each[:60]) for each in digests]) == (0, [1, 1]), printed


ATTACH = """(() => {
  const bytes = Uint8Array.from(atob("%s"), (each) => each.charCodeAt(0));
  const chosen = new DataTransfer();
  chosen.items.add(new File([bytes], "heron.png", { type: "image/png" }));
  const input = document.querySelector(".composer input[type=file]");
  input.files = chosen.files;
  input.dispatchEvent(new Event("change"));
  document.querySelector(".composer textarea").value = "Which bird?";
  document.querySelector(".composer button[type=submit]").click();
})()"""


@pytest.mark.slow("a browser starts")
@pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH")
async def test_page_attaches_a_picture_and_shows_it_in_the_turn_and_the_prompt(
    media_up: tuple[TurnlogUp, OpenAIServer], chromium: Browser
) -> None:
    up, server = media_up
    session = await up.service.open_session("assistant")
    address = f"{up.service.http.base_url}/#/sessions/{session}"
    await chromium.open_page(address)
    await chromium.wait_for("document.querySelector('.composer input[type=file]')")
    await chromium.run_script(ATTACH % encode(PNG))
    await chromium.wait_for("document.querySelector('.turn .parts img')?.naturalWidth === 1")
    await chromium.wait_for("document.querySelector('.turn.completed')")
    assert await chromium.run_script("document.querySelector('.turn .input').textContent") == (
        "Which bird?"
    )
    assert await chromium.run_script("document.querySelector('.attachments').hidden")
    assert read_url(get_last_content(server)[1]["image_url"]["url"]) == PNG
    await chromium.open_page(f"{address}/calls/1.1")
    shown = "[...document.querySelectorAll('.passage')].map((each) => each.textContent).join()"
    await chromium.wait_for("document.querySelector('.passage')")
    assert "heron.png" in await chromium.run_script(shown)


@pytest.mark.slow("a browser starts")
@pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH")
async def test_page_shows_the_picture_of_a_reply(
    media_up: tuple[TurnlogUp, OpenAIServer], chromium: Browser
) -> None:
    up, _ = media_up
    session = await up.service.open_session("assistant")
    await chromium.open_page(f"{up.service.http.base_url}/#/sessions/{session}")
    await chromium.wait_for("document.querySelector('.composer input[type=file]')")
    await run_turn(up, session, text="Draw a heron.")
    shown = "document.querySelector('.reply .parts img')?.naturalWidth === 1"
    await chromium.wait_for(shown)
    await chromium.open_page(f"{up.service.http.base_url}/#/sessions")
    await chromium.open_page(f"{up.service.http.base_url}/#/sessions/{session}")
    await chromium.wait_for(shown)
