"""Pictures, recordings and files as litellm sends them to servers of other protocols."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from pydantic import JsonValue

from tests.services.model.model_requests import build_request
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.content import compute_digest
from turnlog.events.model.content_parts import MediaKind
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.message_media import MessageMedia
from turnlog.services.platform.process_settings import ModelAdapter
from turnlog.services.worker.model.model_types import LanguageModel, ModelFailure

PICTURE, DOCUMENT, SOUND = b"\x89PNG\r\n\x1a\n", b"%PDF-1.7 x", b"RIFF....WAVE"


def build_media(data: bytes, kind: MediaKind, media_type: str, name: str | None) -> MessageMedia:
    return MessageMedia(
        kind=kind, digest=compute_digest(data), media_type=media_type, at=4, name=name
    )


QUESTION = ChatMessage(
    "user",
    "What? And?",
    media=(
        build_media(PICTURE, "image", "image/png", None),
        build_media(DOCUMENT, "file", "application/pdf", "report.pdf"),
    ),
)

BYTES = {compute_digest(each): each for each in (PICTURE, DOCUMENT, SOUND)}


SEEN = ChatMessage("user", "What?", media=QUESTION.media[:1])

HEARD = ChatMessage("user", "", media=(build_media(SOUND, "audio", "audio/wav", None),))


@pytest.fixture(autouse=True)
def addresses(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC", "GEMINI", "OLLAMA"):
        monkeypatch.setenv(f"{name}_API_BASE", server.root)
        monkeypatch.setenv(f"{name}_API_KEY", "key")
    monkeypatch.setenv("MISTRAL_AZURE_API_BASE", server.url)
    monkeypatch.setenv("MISTRAL_API_KEY", "key")


async def send_question(
    model: LanguageModel, server: OpenAIServer, name: str, question: ChatMessage = QUESTION
) -> dict[str, JsonValue]:
    """Return the body that the server of a model gets; its answer is not of its protocol."""
    request = replace(build_request(name), messages=(question.encode_sent(BYTES),))
    with suppress(ModelFailure):
        async for _ in model.stream(request):
            pass
    body: dict[str, JsonValue] = json.loads(server.exchanges[-1].raw)
    return body


async def test_openai_gets_the_parts_of_its_protocol(
    server: OpenAIServer, adapted: tuple[ModelAdapter, str], model: LanguageModel
) -> None:
    body = await send_question(model, server, adapted[1])
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What"},
                {
                    "type": "image_url",
                    "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="},
                },
                {
                    "type": "file",
                    "file": {
                        "filename": "report.pdf",
                        "file_data": "data:application/pdf;base64,JVBERi0xLjcgeA==",
                    },
                },
                {"type": "text", "text": "? And?"},
            ],
        }
    ]


async def test_anthropic_gets_an_image_and_a_document(
    server: OpenAIServer, model: LanguageModel
) -> None:
    body = await send_question(model, server, "anthropic/claude-heron")
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What"},
                {
                    "type": "image",
                    "source": {
                        "type": "base64",
                        "media_type": "image/png",
                        "data": "iVBORw0KGgo=",
                    },
                },
                {
                    "type": "document",
                    "source": {
                        "type": "base64",
                        "media_type": "application/pdf",
                        "data": "JVBERi0xLjcgeA==",
                    },
                },
                {"type": "text", "text": "? And?"},
            ],
        }
    ]


async def test_gemini_gets_inline_data(server: OpenAIServer, model: LanguageModel) -> None:
    body = await send_question(model, server, "gemini/gemini-heron")
    assert body["contents"] == [
        {
            "role": "user",
            "parts": [
                {"text": "What"},
                {"inline_data": {"data": "iVBORw0KGgo=", "mime_type": "image/png"}},
                {"inline_data": {"data": "JVBERi0xLjcgeA==", "mime_type": "application/pdf"}},
                {"text": "? And?"},
            ],
        }
    ]
    heard = await send_question(model, server, "gemini/gemini-heron", HEARD)
    assert "audio/wav" in json.dumps(heard["contents"])


async def test_ollama_gets_pictures_beside_the_text(
    server: OpenAIServer, model: LanguageModel
) -> None:
    body = await send_question(model, server, "ollama_chat/heron", SEEN)
    assert body["messages"] == [{"role": "user", "content": "What?", "images": ["iVBORw0KGgo="]}]


async def test_mistral_gets_a_picture(server: OpenAIServer, model: LanguageModel) -> None:
    body = await send_question(model, server, "mistral/pixtral-12b", SEEN)
    assert "data:image/png;base64,iVBORw0KGgo=" in json.dumps(body["messages"])


async def test_mistral_gets_a_recording_beside_a_text(
    server: OpenAIServer, model: LanguageModel
) -> None:
    question = replace(HEARD, content="Who?")
    body = await send_question(model, server, "mistral/voxtral-small-latest", question)
    heard = {"type": "input_audio", "input_audio": "UklGRi4uLi5XQVZF"}
    content = [{"type": "text", "text": "Who?"}, heard]
    assert body["messages"] == [{"role": "user", "content": content}]
