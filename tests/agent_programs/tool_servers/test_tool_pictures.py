"""Pictures, recordings and files that a tool returns: on record, in the prompt, and read back."""

from __future__ import annotations

import sys
from base64 import b64encode
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from tests.agent_programs.agent_harness import LOOP_PROFILE, build_loop_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.services.media.media_samples import PNG, SAMPLES, make_png
from turnlog.events.content import compute_digest
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.store.media_chunks import iterate_bytes
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.projections.audit.export.bundle_format import build_blob_path
from turnlog.services.bundle.bundle_unpacking import unpack_bundle
from turnlog.services.media.incoming_media import MAX_INCOMING_PARTS, IncomingMedia
from turnlog.services.use_cases.prompts.call_reading import load_part_views
from turnlog.services.worker.tools.mcp_contents import convert_result
from turnlog.services.worker.tools.result_media import store_result_media

UNWITNESSED, NOT_VERIFIED = 6, 5
"""Exit codes of a bundle's verifier."""

PICTURE = IncomingMedia(PNG, "image/png")

PICTURE_LINE = f"(image/png, {len(PNG)} bytes)"

WAV, PDF = SAMPLES["audio/wav"], SAMPLES["application/pdf"]


def encode(data: bytes) -> str:
    return b64encode(data).decode()


async def test_contents_of_a_result_are_a_line_each_and_media_beside_them() -> None:
    pdf = BlobResourceContents(
        uri="file:///tmp/report.pdf", blob=encode(PDF), mime_type="application/pdf"
    )
    note = TextResourceContents(uri="file:///tmp/note.txt", text="a note")
    answer = await convert_result(
        CallToolResult(
            content=[
                TextContent(type="text", text="Here."),
                ImageContent(type="image", data=encode(PNG), mime_type="image/png"),
                AudioContent(type="audio", data=encode(WAV), mime_type="audio/wav"),
                EmbeddedResource(type="resource", resource=pdf),
                EmbeddedResource(type="resource", resource=note),
                ResourceLink(type="resource_link", name="log", uri="https://host/log"),
            ]
        )
    )
    assert answer.text.split("\n") == [
        *("Here.", PICTURE_LINE, f"(audio/wav, {len(WAV)} bytes)"),
        f"(report.pdf, application/pdf, {len(PDF)} bytes)",
        *("a note", "(log: https://host/log)"),
    ]
    assert answer.media == (
        PICTURE,
        IncomingMedia(WAV, "audio/wav"),
        IncomingMedia(PDF, "application/pdf", "report.pdf"),
    )


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("https://files.example/a/report.pdf?X-Signature=s3cret&Expires=9", "report.pdf"),
        ("https://files.example/report.pdf#token=s3cret", "report.pdf"),
        ("https://files.example/a/?sig=s3cret/report.pdf", "a"),
        ("s3://bucket/report.pdf?versionId=s3cret", "report.pdf"),
    ],
)
async def test_name_of_a_file_has_no_signature_of_its_address(uri: str, name: str) -> None:
    pdf = BlobResourceContents(uri=uri, blob=encode(PDF), mime_type="application/pdf")
    answer = await convert_result(
        CallToolResult(content=[EmbeddedResource(type="resource", resource=pdf)])
    )
    assert [each.name for each in answer.media] == [name]
    assert "s3cret" not in answer.text


async def test_picture_beside_a_structured_value_is_kept_with_its_line() -> None:
    picture = ImageContent(type="image", data=encode(PNG), mime_type="image/png")
    answer = await convert_result(
        CallToolResult(content=[picture], structured_content={"width": 1})
    )
    assert answer.text == f'{{"width":1}}\n{PICTURE_LINE}'
    assert answer.media == (PICTURE,)


async def test_picture_that_is_no_base64_is_a_line_and_no_media() -> None:
    broken = ImageContent(type="image", data="no base64!", mime_type="image/png")
    answer = await convert_result(CallToolResult(content=[broken]))
    assert (answer.text, answer.media) == ("(image)", ())


async def test_name_and_type_that_a_server_chose_are_cut() -> None:
    long = "x" * 1_000_000
    data = BlobResourceContents(uri=f"file:///tmp/{long}", blob=encode(WAV), mime_type=long)
    answer = await convert_result(
        CallToolResult(content=[EmbeddedResource(type="resource", resource=data)])
    )
    (media,) = answer.media
    assert media.name == media.media_type == "x" * 200 + "..."
    assert answer.text == f"({media.name}, {media.media_type}, {len(WAV)} bytes)"


async def test_parts_have_the_type_that_their_bytes_are_of() -> None:
    store = MemoryMediaStore()
    media = (
        IncomingMedia(PNG, "text/html"),
        IncomingMedia(b"<script>", "image/png"),
        IncomingMedia(b"a,b\n1,2 and some more", "text/csv", "table.csv"),
        IncomingMedia(b"\0" * 20, "application/zip"),
    )
    parts = await store_result_media(store, "t", media, 7, None)
    assert [(each.kind, each.media_type, each.name, each.at) for each in parts] == [
        ("image", "image/png", None, 7),
        ("file", "image/png", None, 7),
        ("file", "text/csv", "table.csv", 7),
        ("file", "application/zip", None, 7),
    ]
    for part, each in zip(parts, media, strict=True):
        assert await store.get_media("t", part.digest) == each.data


async def test_no_more_parts_than_allowed_are_stored() -> None:
    media = [
        IncomingMedia(b"%d" % number, "text/plain") for number in range(MAX_INCOMING_PARTS + 3)
    ]
    parts = await store_result_media(
        MemoryMediaStore(), "t", [IncomingMedia(b"", "x"), *media], 0, None
    )
    assert [part.digest for part in parts] == [
        compute_digest(each.data) for each in media[:MAX_INCOMING_PARTS]
    ]


@pytest.mark.asyncio(loop_scope="module")
class TestInATurn:
    """A turn whose tool returns a picture."""

    async def run_turn(self, platform: AgentService, model: str) -> tuple[str, list[Any]]:
        """Run it, and return the session and the messages after the tool call."""
        platform.shop.media = (PICTURE, IncomingMedia(WAV, "audio/wav"))
        platform.shop.result_text = PICTURE_LINE
        profile = {**LOOP_PROFILE, "model": model}
        kind = build_loop_blueprint(profiles={"agent": profile})
        session = await platform.open_session(kind)
        await platform.complete_turn(
            session,
            answer_with_tool_calls(("shop_look", {"what": "map"})),
            answer_with_text("A map."),
        )
        messages: list[Any] = platform.bodies[-1]["messages"]
        called = next(place for place, each in enumerate(messages) if each.get("tool_calls"))
        return session, messages[called + 1 :]

    async def require_verified(self, platform: AgentService, session: str) -> None:
        report = await platform.fetch_json(f"/v1/sessions/{session}/verify")
        assert report["findings"] == []
        assert report["reproduction"] == "reproduced"

    async def test_model_is_sent_the_picture_and_the_record_has_its_digest(
        self, platform: AgentService
    ) -> None:
        session, messages = await self.run_turn(platform, "openai/heron")
        assert messages[0]["role"] == "tool"
        assert PICTURE_LINE in str(messages[0]["content"])
        # litellm moves it into a message of the user, which OpenAI's protocol allows pictures in.
        assert encode(PNG) in str(messages)
        assert encode(WAV) not in str(messages)
        (returned,) = await platform.load_events(session, ToolReturned)
        assert [(part.kind, part.digest) for part in returned.parts] == [
            ("image", compute_digest(PNG)),
            ("audio", compute_digest(WAV)),
        ]
        assert (returned.parts[0].width, returned.parts[0].height) == (1, 1)
        media = platform.backend.media
        for part in returned.parts:
            assert await media.find_media(platform.gateway.tenant, part.digest)
        call = (await platform.load_events(session, ContextAssembled))[-1]
        shown = [each for each in call.manifest.parts if each.layer == "media"]
        assert [(each.role, each.digest, each.treatment) for each in shown] == [
            ("tool", compute_digest(PNG), "kept")
        ]
        await self.require_verified(platform, session)
        await platform.fetch_prompt(session, "1.2")

    async def test_whole_result_has_the_picture(self, platform: AgentService) -> None:
        session, _ = await self.run_turn(platform, "openai/heron")
        (returned,) = await platform.load_events(session, ToolReturned)
        found = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/tools/{returned.id}")
        assert [each["data"] for each in found["parts"]] == [encode(PNG), encode(WAV)]
        assert found["parts"][0]["media_type"] == "image/png"
        picture = await platform.http.get(f"/v1/blobs/{found['parts'][0]['digest']}")
        assert picture.content == PNG

    async def test_picture_follows_the_results_where_tools_may_return_texts_only(
        self, platform: AgentService
    ) -> None:
        session, messages = await self.run_turn(platform, "openai/gpt-4o")
        assert [each["role"] for each in messages] == ["tool", "user"]
        text, picture = messages[1]["content"]
        called = messages[0]["tool_call_id"]
        assert text["text"] == f"Pictures in the result of shop_look, called as:\n{called}"
        assert encode(PNG) in picture["image_url"]["url"]
        await self.require_verified(platform, session)
        await platform.fetch_prompt(session, "1.2")

    async def test_history_has_the_parts_until_the_reply_is_withheld(
        self, platform: AgentService
    ) -> None:
        session, _ = await self.run_turn(platform, "openai/heron")
        (turn,) = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
        (used,) = turn["tools"]
        assert [each["digest"] for each in used["parts"]] == [
            compute_digest(PNG),
            compute_digest(WAV),
        ]
        form = {"turn": 1, "reason": "it shows a face"}
        answer = await platform.http.post(f"/v1/sessions/{session}/redactions", json=form)
        assert answer.status_code == 200, answer.text
        history = await platform.http.get(f"/v1/sessions/{session}/history")
        events = await platform.http.get(f"/v1/sessions/{session}/events?limit=100")
        for shown in (history, events):
            assert shown.status_code == 200
            assert compute_digest(PNG) not in shown.text

    async def test_picture_that_is_gone_or_altered_is_a_finding(
        self, platform: AgentService
    ) -> None:
        session, _ = await self.run_turn(platform, "openai/heron")
        key = platform.gateway.tenant, compute_digest(PNG)
        media = platform.backend.media.media
        whole = media.pop(key)
        verdicts = [("completeness", f"it names media {key[1]}: it is gone")]
        assert await self.find_wrong(platform, session) == verdicts
        media[key] = b"another picture"
        verdicts = [("integrity", f"it names media {key[1]}: its bytes have changed")]
        assert await self.find_wrong(platform, session) == verdicts
        lines = (await platform.http.get("/v1/verify")).text.splitlines()
        assert any(f"media {key[1]}: its bytes have changed" in line for line in lines)
        media[key] = whole
        assert await self.find_wrong(platform, session) == []

    async def find_wrong(self, platform: AgentService, session: str) -> list[tuple[str, str]]:
        report = await platform.fetch_json(f"/v1/sessions/{session}/verify")
        return [(each["verdict"], each["detail"]) for each in report["findings"]]

    async def test_bundle_has_the_picture_and_its_verifier_checks_it(
        self, platform: AgentService, tmp_path: Path
    ) -> None:
        session, _ = await self.run_turn(platform, "openai/heron")
        answer = await platform.http.get(f"/v1/sessions/{session}/export?format=bundle")
        packed = tmp_path / "bundle.zip"
        packed.write_bytes(answer.content)
        listed = unpack_bundle(packed, tmp_path / "bundle")
        assert {compute_digest(PNG), compute_digest(WAV)} <= set(listed.blobs)
        picture = tmp_path / "bundle" / build_blob_path(compute_digest(PNG))
        assert picture.read_bytes() == PNG
        assert self.verify_bundle(tmp_path / "bundle")[0] == UNWITNESSED
        picture.write_bytes(PNG + b"!")
        status, said = self.verify_bundle(tmp_path / "bundle")
        assert (status, compute_digest(PNG) in said) == (NOT_VERIFIED, True)
        picture.unlink()
        assert self.verify_bundle(tmp_path / "bundle")[0] == NOT_VERIFIED

    def verify_bundle(self, folder: Path) -> tuple[int, str]:
        """Run the verifier of a bundle, and return its exit code and what it prints."""
        ran = run([sys.executable, "-I", "verify.py"], cwd=folder, capture_output=True, check=False)
        return ran.returncode, ran.stdout.decode()

    async def test_model_that_takes_texts_only_is_sent_the_line_alone(
        self, platform: AgentService
    ) -> None:
        _, messages = await self.run_turn(platform, "openai/deepseek-chat")
        assert [each["role"] for each in messages] == ["tool"]
        assert messages[0]["content"] == PICTURE_LINE


async def test_answer_has_the_bytes_of_no_more_parts_than_a_megabyte() -> None:
    store = MemoryMediaStore()
    sizes = [400_000, 700_000, 500_000, 2_000_000, 100_000]
    parts: list[MediaPart] = []
    for size in sizes:
        stored = await store.put_media("t", iterate_bytes(make_png(size)), most_bytes=size)
        parts.append(
            MediaPart(kind="image", digest=stored.digest, size=size, media_type="image/png")
        )
    gone = parts[0].model_copy(update={"digest": compute_digest("gone")})
    views = await load_part_views(store, "t", (gone, *parts))
    assert [each.size for each in views if each.data] == [400_000, 500_000, 100_000]
    assert [each.digest for each in views] == [gone.digest, *(each.digest for each in parts)]
