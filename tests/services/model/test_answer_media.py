"""Pictures, recordings and files in answers, in every spelling that is read."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping

import pytest
from pydantic import JsonValue

from tests.services.media.media_samples import PNG, SAMPLES
from tests.services.model.model_requests import build_request, collect_answer
from tests.support.servers.model_behaviours import RawFrames
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.content import compute_digest
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.services.media.incoming_media import MAX_INCOMING_PARTS
from turnlog.services.worker.attempts.answer_parts import AnswerMediaIntake
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.model.answers.answer_end import build_finished
from turnlog.services.worker.model.answers.chunk_reader import ChunkReader
from turnlog.services.worker.model.bounded_responses import MAX_MEDIA_FRAME_BYTES
from turnlog.services.worker.model.model_types import (
    RAW_SOUND_TYPE,
    LanguageModel,
    MediaDelta,
    ModelFailure,
    TextDelta,
)

ENCODED = b64encode(PNG).decode()
URL = f"data:image/png;base64,{ENCODED}"
PICTURE = MediaDelta((ENCODED,), "image/png")
IMAGE: JsonValue = {"type": "image_url", "image_url": {"url": URL}}
SAMPLES_OF_SOUND = b"\x00\x01" * 24_000


def read_deltas(*deltas: Mapping[str, object]) -> list[str | MediaDelta]:
    reading = ChunkReader()
    read: list[str | MediaDelta] = []
    for delta in deltas:
        text, is_token = reading.read_chunk({"choices": [{"delta": delta}]})
        assert is_token
        read += [
            each.text if isinstance(each, TextDelta) else each
            for each in reading.split_deltas(text)
        ]
    rest = reading.split_deltas(reading.read_rest())
    return [*read, *(each.text if isinstance(each, TextDelta) else each for each in rest)]


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param({"images": [IMAGE]}, id="OpenRouter, and Gemini through litellm"),
        pytest.param({"images": [{"image_url": URL}]}, id="a URL without its object"),
        pytest.param({"content": [IMAGE]}, id="a part of the content"),
        pytest.param(
            {"content": [{"type": "image", "data": ENCODED, "mime_type": "image/png"}]}, id="MCP"
        ),
        pytest.param(
            {
                "content": [
                    {"type": "image", "source": {"media_type": "image/png", "data": ENCODED}}
                ]
            },
            id="Anthropic",
        ),
        pytest.param(
            {"content": [{"inline_data": {"mime_type": "image/png", "data": ENCODED}}]}, id="Gemini"
        ),
    ],
)
def test_picture_of_an_answer_is_read_in_each_spelling(delta: Mapping[str, object]) -> None:
    assert read_deltas(delta) == [PICTURE]


def test_pictures_stand_where_they_come_in_the_text() -> None:
    content = [{"type": "text", "text": "One "}, IMAGE, {"type": "text", "text": "two."}]
    assert read_deltas({"content": content}) == ["One ", PICTURE, "two."]
    other = {"type": "image_url", "image_url": {"url": f"{URL[:-4]}AAAA"}}
    assert [type(each) for each in read_deltas({"content": "Here:", "images": [IMAGE, other]})] == [
        *(str, MediaDelta, MediaDelta),
    ]


def test_pictures_that_each_chunk_repeats_are_one() -> None:
    assert read_deltas(
        {"content": "a", "images": [IMAGE]}, {"content": "b", "images": [IMAGE]}
    ) == [
        *("a", PICTURE, "b"),
    ]


def test_address_of_a_picture_is_a_text() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://heron.example/a.png"}}
    assert read_deltas({"images": [picture]}) == ["(image: https://heron.example/a.png)"]


def test_file_of_an_answer_has_its_name() -> None:
    file = {"type": "file", "file": {"filename": "a.png", "file_data": URL}}
    assert read_deltas({"content": [file]}) == [MediaDelta((ENCODED,), "image/png", "a.png")]


def test_recording_is_one_part_after_its_transcript() -> None:
    pieces = [b64encode(SAMPLES_OF_SOUND[:3]).decode(), b64encode(SAMPLES_OF_SOUND[3:]).decode()]
    read = read_deltas(
        {"audio": {"id": "a", "transcript": "Good "}},
        {"audio": {"data": pieces[0]}},
        {"audio": {"data": pieces[1], "transcript": "day."}},
    )
    assert read == ["Good ", "day.", MediaDelta(tuple(pieces), RAW_SOUND_TYPE)]


def test_answer_of_a_picture_alone_is_an_answer() -> None:
    reading = ChunkReader()
    reading.read_chunk({"choices": [{"delta": {"images": [IMAGE]}}]})
    assert not reading.is_silent
    end = build_finished(reading, reason_name="stop", usage=None, requested_model="openai/heron")
    assert end.finish_reason == "stop"


def test_more_pictures_than_are_stored_fail_the_answer() -> None:
    images = [
        {"image_url": {"url": f"data:image/png;base64,{b64encode(b'%d' % each).decode()}"}}
        for each in range(MAX_INCOMING_PARTS + 1)
    ]
    with pytest.raises(ModelFailure, match="too_long"):
        read_deltas({"images": images})


async def test_samples_become_a_recording_that_players_play() -> None:
    store = MemoryMediaStore()
    intake = AnswerMediaIntake(store, MediaRoom())
    delta = MediaDelta((b64encode(SAMPLES_OF_SOUND).decode(),), RAW_SOUND_TYPE)
    part = await intake.store_part("t", delta, 7, ())
    assert (part.kind, part.media_type, part.seconds, part.at) == ("audio", "audio/wav", 1, 7)
    assert (await store.get_media("t", part.digest)).endswith(SAMPLES_OF_SOUND)
    whole = MediaDelta((b64encode(SAMPLES["audio/mpeg"]).decode(),), RAW_SOUND_TYPE)
    kept = await intake.store_part("t", whole, 0, ())
    assert kept.digest == compute_digest(SAMPLES["audio/mpeg"])


@pytest.mark.parametrize("encoded", ["no base64!", ""])
async def test_picture_without_bytes_fails_the_answer(encoded: str) -> None:
    intake = AnswerMediaIntake(MemoryMediaStore(), MediaRoom())
    with pytest.raises(ModelFailure, match="malformed"):
        await intake.store_part("t", MediaDelta((encoded,), "image/png"), 0, ())


@pytest.mark.slow("litellm copies megabytes")
async def test_picture_in_one_frame_is_read_and_a_larger_frame_fails(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    def build_frame(size: int) -> bytes:
        url = f"data:image/png;base64,{'A' * size}"
        images = [{"type": "image_url", "image_url": {"url": url}}]
        delta = {"choices": [{"index": 0, "delta": {"content": "", "images": images}}]}
        return b"data: %s\n\n" % json.dumps(delta).encode()

    end = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
    server.queue_behaviours(RawFrames((build_frame(4_000_000), end, b"data: [DONE]\n\n")))
    answer = await collect_answer(model, build_request(name))
    assert [len(each.pieces[0]) for each in answer.media] == [4_000_000]
    server.queue_behaviours(RawFrames((build_frame(MAX_MEDIA_FRAME_BYTES), end)))
    with pytest.raises(ModelFailure, match=f"more than {MAX_MEDIA_FRAME_BYTES} bytes"):
        await collect_answer(model, build_request(name))
