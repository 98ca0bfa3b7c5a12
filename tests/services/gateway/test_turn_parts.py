"""Parts of a submitted turn over HTTP: what is taken, what is refused, and what is recorded."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.services.media.media_samples import PNG, SAMPLES, make_png
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.services.cli.client.attached_files import upload_files
from turnlog.services.cli.client.service_client import create_client
from turnlog.services.cli.conversation.session_conversation import SessionConversation

Form = dict[str, Any]


def encode(data: bytes) -> str:
    return b64encode(data).decode()


def build_image(data: bytes = PNG, **others: object) -> Form:
    return {"type": "image", "data": encode(data), **others}


def build_text(text: str) -> Form:
    return {"type": "text", "text": text}


async def post_turn(stand: RunningGateway, session: str, **form: object) -> tuple[int, Form]:
    answer = await stand.http.post(f"/v1/sessions/{session}/turns", json=form)
    return answer.status_code, answer.json()


async def load_turn(stand: RunningGateway, session: str, turn: int = 1) -> Form:
    history = await stand.fetch_json(f"/v1/sessions/{session}/history")
    found: Form = history["turns"][turn - 1]
    return found


async def test_parts_are_recorded_with_their_places_and_their_bytes_are_stored(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session()
    parts = [
        build_image(name="a.png"),
        build_text("Who is 🙂"),
        build_image(),
        build_text("here?"),
        {"type": "file", "data": encode(SAMPLES["text/plain"]), "name": "notes.txt"},
    ]
    status, _ = await post_turn(idle, session, parts=parts)
    assert status == 202
    turn = await load_turn(idle, session)
    assert turn["text"] == "Who is 🙂\nhere?"
    found = [(each["kind"], each["media_type"], each["at"], each["name"]) for each in turn["parts"]]
    assert found == [
        ("image", "image/png", 0, "a.png"),
        ("image", "image/png", 8, None),
        ("file", "text/plain", 14, "notes.txt"),
    ]
    assert await idle.backend.media.get_media(idle.tenant, compute_digest(PNG)) == PNG


@pytest.mark.parametrize(
    ("refusal", "code"),
    [("no session", "unknown-session"), ("closed", "session-closed"), ("quota", "quota-exceeded")],
)
async def test_bytes_of_a_refused_turn_are_not_stored(
    idle: RunningGateway, refusal: str, code: str
) -> None:
    picture = make_png(3_000)
    session = "nowhere" if refusal == "no session" else await idle.open_session()
    if refusal == "closed":
        assert (await idle.http.post(f"/v1/sessions/{session}/close")).is_success
    if refusal == "quota":
        limits = {"requests_per_hour": 0}
        assert (await idle.http.put("/v1/quotas/u1", json=limits)).is_success
    parts = [build_text("Who is here?"), build_image(picture)]
    status, body = await post_turn(idle, session, parts=parts, user="u1")
    assert (status // 100, body["code"]) == (4, code)
    assert await idle.backend.media.find_media(idle.tenant, compute_digest(picture)) is None


async def test_turn_of_a_picture_alone_has_an_empty_text(idle: RunningGateway) -> None:
    session = await idle.open_session()
    assert (await post_turn(idle, session, parts=[build_image()]))[0] == 202
    assert (await load_turn(idle, session))["text"] == ""


async def test_list_in_the_field_of_the_text_is_taken_as_parts(idle: RunningGateway) -> None:
    session = await idle.open_session()
    url = {"url": f"data:image/png;base64,{encode(PNG)}", "detail": "high"}
    parts = [build_text("Who?"), {"type": "image_url", "image_url": url}]
    assert (await post_turn(idle, session, text=parts))[0] == 202
    turn = await load_turn(idle, session)
    assert (turn["text"], turn["parts"][0]["digest"]) == ("Who?", compute_digest(PNG))


async def test_key_is_the_same_for_bytes_and_for_their_digest(idle: RunningGateway) -> None:
    session = await idle.open_session()
    path, headers = f"/v1/sessions/{session}/turns", {"Idempotency-Key": "one"}
    by_digest = {"type": "image", "digest": compute_digest(PNG)}

    async def post(*parts: Form) -> tuple[int, Form]:
        answer = await idle.http.post(path, json={"parts": [*parts]}, headers=headers)
        return answer.status_code, answer.json()

    first = await post(build_image())
    assert first[0] == 202
    assert await post(build_image()) == first
    assert await post(by_digest) == first
    other = await post(build_image(make_png(500)))
    assert (other[0], other[1]["code"]) == (409, "key-reused")
    assert (await post(by_digest, build_text("?")))[0] == 409


@pytest.mark.parametrize(
    ("form", "status", "code", "field"),
    [
        ({"text": "Hi", "parts": [build_text("Hi")]}, 422, "given-twice", "parts"),
        ({"parts": []}, 422, "invalid", "parts"),
        ({"parts": [build_text("x")] * 21}, 422, "invalid", "parts"),
        ({"parts": [{"type": "video"}]}, 422, "invalid", "parts.0"),
        ({"parts": [{"type": "image"}]}, 422, "invalid", "parts.0"),
        (
            {"parts": [build_image(digest=compute_digest(PNG))]},
            *(422, "invalid", "parts.0"),
        ),
        ({"parts": [{"type": "image", "data": "no base64"}]}, 422, "invalid", "parts.0.data"),
        ({"parts": [{"type": "image", "data": ""}]}, 422, "invalid", "parts.0.data"),
        (
            {"parts": [build_text("x"), {"type": "image", "digest": compute_digest("never")}]},
            *(404, "unknown-blob", "parts.1.digest"),
        ),
        ({"parts": [{"type": "image", "digest": "sha256:1"}]}, 422, "invalid", None),
        ({"parts": [build_image(b"\x00\x01\x02" * 9)]}, 415, "unsupported-media", "parts.0.data"),
        ({"parts": [build_image(b"<svg>" * 9)]}, 422, "media-type-differs", "parts.0.data"),
        (
            {"parts": [build_image(media_type="image/jpeg")]},
            *(422, "media-type-differs", "parts.0.data"),
        ),
        (
            {"parts": [build_image(media_type="image/svg+xml")]},
            *(415, "unsupported-media", "parts.0.data"),
        ),
        (
            {"parts": [{"type": "audio", "data": encode(PNG)}]},
            *(422, "media-type-differs", "parts.0.data"),
        ),
        (
            {"parts": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]},
            *(422, "invalid", "parts.0.image_url.url"),
        ),
        ({"parts": [build_text("a \ufffc b"), build_image()]}, 422, "bad-text", "parts.0.text"),
        ({"role": "system", "parts": [build_image()]}, 422, "invalid", "parts"),
    ],
)
async def test_part_that_cannot_be_taken_is_refused_with_its_field(
    idle: RunningGateway, form: Form, status: int, code: str, field: str | None
) -> None:
    session = await idle.open_session()
    before = await idle.count_stored_events()
    found, problem = await post_turn(idle, session, **form)
    assert (found, problem["code"]) == (status, code), problem
    assert field is None or problem["field"] == field, problem
    assert problem["fix"]
    assert await idle.count_stored_events() == before


async def test_parts_may_be_larger_than_other_requests_and_texts_may_not(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session()
    assert (await post_turn(idle, session, parts=[build_image(make_png(1_000_000))]))[0] == 202
    for form in ({"text": "x" * 300_000}, {"parts": [build_text("x" * 300_000)]}):
        status, problem = await post_turn(idle, session, **form)
        assert (status, problem["code"], problem["field"]) == (413, "too-large", "body"), problem


async def test_part_over_the_limit_of_parts_is_refused(idle: RunningGateway) -> None:
    session = await idle.open_session()
    async with idle.start_another_gateway(max_part_bytes=2_000) as narrow:
        status, problem = await post_turn(narrow, session, parts=[build_image(make_png(2_500))])
        assert (status, problem["code"], problem["field"]) == (413, "too-large", "parts.0.data")
        many = [build_image(make_png(size)) for size in (1_500, 1_600, 1_700)]
        status, problem = await post_turn(narrow, session, parts=many)
        assert (status, problem["code"], problem["field"]) == (413, "too-large", "parts")
        assert (await post_turn(narrow, session, parts=many[:2]))[0] == 202


MEASURED = """\
blueprint: measured
version: 1
layers: {rules: {text: "Be brief."}}
calls: {reply: {messages: [{system: [rules]}, {user: [input]}], budget: small}}
budget: {small: {tokens: 8000, components: {media: {tokens: 1000, fixed: true}}}}
profiles: {chat: {default: true, call: reply}}
"""


async def test_pictures_over_the_fixed_limit_of_media_are_refused_when_they_are_sent(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "blueprints/measured"
    folder.mkdir(parents=True)
    (folder / "blueprint.yaml").write_text(MEASURED)
    async with start_service(
        MemoryBackend(), "acme", tmp_path, working=False, blueprints=(folder.parent,)
    ) as stand:
        session = await stand.open_session("measured")
        pictures = [build_image(make_png(1_000 + number)) for number in range(3)]
        status, problem = await post_turn(stand, session, parts=pictures)
        assert (status, problem["code"], problem["field"]) == (422, "over-budget", "parts")
        assert "do not fit component media, which has 1000" in problem["detail"]
        assert (await post_turn(stand, session, parts=pictures[:1]))[0] == 202


GUARDED = """\
blueprint: guarded
version: 1
layers: {rules: {text: "Be brief."}}
calls: {reply: {messages: [{system: [rules]}, {user: [input]}]}}
profiles: {chat: {default: true, call: reply}}
policies:
  input_safety: [{name: cards, check: cards, action: mask}]
"""


@pytest_asyncio.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway with a blueprint that masks card numbers."""
    folder = tmp_path / "blueprints/guarded"
    folder.mkdir(parents=True)
    (folder / "blueprint.yaml").write_text(GUARDED)
    blueprints = (folder.parent,)
    async with start_service(
        MemoryBackend(), "acme", tmp_path, working=False, blueprints=blueprints
    ) as running:
        yield running


async def test_rules_for_inputs_apply_to_the_texts_and_names_of_parts(
    guarded: RunningGateway,
) -> None:
    stand, session = guarded, await guarded.open_session("guarded")
    card = "4111 1111 1111 1111"
    parts = [build_text(f"My card is {card}:"), build_image(name=f"{card}.png"), build_text("ok?")]
    assert (await post_turn(stand, session, parts=parts))[0] == 202
    turn = await load_turn(stand, session)
    assert card not in str(turn)
    assert turn["text"].endswith(":\nok?")
    (part,) = turn["parts"]
    assert turn["text"][: part["at"]].endswith(":")


async def test_event_of_the_turn_has_no_bytes(idle: RunningGateway) -> None:
    session = await idle.open_session()
    await post_turn(idle, session, parts=[build_text("Who?"), build_image()])
    last = await idle.backend.log.read_last_event(idle.tenant, session)
    assert last is not None
    assert isinstance(last.event, TurnSubmitted)
    assert last.event.text == PlainText(text="Who?")
    assert encode(PNG).encode() not in last.stored


async def test_requests_of_the_page_on_pictures_are_taken(idle: RunningGateway) -> None:
    page = (Path(__file__).parents[3] / "docs/pictures-and-files.md").read_text()
    stored = await idle.http.post(
        "/v1/blobs",
        content=SAMPLES["application/pdf"],
        headers={"Content-Type": "application/pdf"},
    )
    forms = re.findall(r"```http\nPOST \S+\n\n(.+?)```", page, re.DOTALL)
    assert len(forms) == 3
    session = await idle.open_session()
    for form in forms:
        written = form.replace("sha256:DIGEST", stored.json()["digest"])
        status, problem = await post_turn(idle, session, **json.loads(written))
        assert status == 202, problem


async def test_terminal_sends_attached_files_with_a_turn(
    idle: RunningGateway, tmp_path: Path
) -> None:
    session = await idle.open_session()
    (tmp_path / "heron.png").write_bytes(PNG)
    (tmp_path / "birds.pdf").write_bytes(SAMPLES["application/pdf"])
    service = create_client(str(idle.http.base_url))
    try:
        files = [tmp_path / "heron.png", tmp_path / "birds.pdf"]
        conversation = SessionConversation(service, session)
        await conversation.submit_turn("Which?", await upload_files(service, files))
        with pytest.raises(Refused, match="No such file"):
            await upload_files(service, [tmp_path / "none.png"])
    finally:
        await service.close()
    turn = await load_turn(idle, session)
    assert turn["text"] == "Which?"
    assert [(each["kind"], each["name"]) for each in turn["parts"]] == [
        ("image", "heron.png"),
        ("file", "birds.pdf"),
    ]


async def test_preview_of_a_turn_with_parts_counts_them_and_stores_nothing(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session()
    data = make_png(90_000)
    parts = [build_text("Who is here?"), build_image(data, name="a.png")]
    path = f"/v1/sessions/{session}/window"
    answer = await idle.http.post(path, json={"parts": parts})
    assert answer.status_code == 200, answer.text
    window = answer.json()
    text, picture = window["messages"][-1]["content"]
    assert (text["text"], picture["digest"]) == ("Who is here?", compute_digest(data))
    (part,) = [each for each in window["manifest"]["parts"] if each["layer"] == "media"]
    assert part["tokens"] > 0
    assert await idle.backend.media.find_media(idle.tenant, compute_digest(data)) is None
    unknown = {"parts": [{"type": "image", "digest": compute_digest(b"never")}]}
    refused = await idle.http.post(path, json=unknown)
    assert (refused.status_code, refused.json()["field"]) == (404, "parts.0.digest")
    both = await idle.http.post(path, json={"parts": parts, "text": "Who?"})
    assert (both.status_code, both.json()["field"]) == (422, "parts")


async def test_prompt_without_a_session_is_assembled_with_parts(idle: RunningGateway) -> None:
    form = {"blueprint": "clerk", "attributes": {"desk": "d-1"}, "parts": [build_image()]}
    answer = await idle.http.post("/v1/assemble", json=form)
    assert answer.status_code == 200, answer.text
    assert answer.json()["messages"][-1]["content"][0]["digest"] == compute_digest(PNG)
