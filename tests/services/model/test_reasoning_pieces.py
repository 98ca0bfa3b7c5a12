"""What a model reasons, in the form of each provider, is recorded as it was sent."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import pytest
from pydantic import BaseModel, JsonValue

from turnlog.events.recorded_reasoning import parse_reasoning, read_reasoning_text
from turnlog.services.worker.model.answers.chunk_reader import ChunkReader
from turnlog.services.worker.model.answers.reasoning_joiner import (
    MAX_REASONING_BYTES,
    MAX_RECORD_BYTES,
    ReasoningJoiner,
    measure_json_bytes,
)
from turnlog.services.worker.model.model_types import ModelFailure

Delta = dict[str, object]


def record(*deltas: Delta, room: int = MAX_RECORD_BYTES) -> dict[str, JsonValue]:
    """Return what is recorded of the reasoning in these deltas; empty if nothing is."""
    reading, joiner = ChunkReader(), ReasoningJoiner()
    for delta in deltas:
        reading.read_chunk({"choices": [{"delta": delta}]})
        if piece := reading.pop_reasoning():
            joiner.add_piece(piece.fields)
    return parse_reasoning(joiner.encode_record(room) or "{}") or {}


def block(**fields: object) -> Delta:
    return {"thinking_blocks": [{"type": "thinking", **fields}]}


def detail(kind: str, **fields: object) -> Delta:
    return {"reasoning_details": [{"type": f"reasoning.{kind}", **fields}]}


@pytest.mark.parametrize(
    ("deltas", "recorded"),
    [
        pytest.param(
            [{"reasoning_content": "I "}, {"reasoning_content": "look."}, {"content": "Yes."}],
            {"reasoning_content": "I look."},
            id="DeepSeek",
        ),
        pytest.param(
            [{"reasoning": "I "}, {"reasoning": "look."}], {"reasoning": "I look."}, id="vLLM"
        ),
        pytest.param([{"thinking": "I look."}], {"thinking": "I look."}, id="Ollama"),
        pytest.param(
            [
                block(thinking="I ", signature=""),
                block(thinking="look.", signature=""),
                block(thinking="", signature="sig1"),
                {"thinking_blocks": [{"type": "redacted_thinking", "data": "xyz"}]},
                block(thinking="Again.", signature=""),
                block(thinking="", signature="sig2"),
            ],
            {
                "thinking_blocks": [
                    {"type": "thinking", "thinking": "I look.", "signature": "sig1"},
                    {"type": "redacted_thinking", "data": "xyz"},
                    {"type": "thinking", "thinking": "Again.", "signature": "sig2"},
                ]
            },
            id="Anthropic, signed and redacted",
        ),
        pytest.param(
            [
                {"reasoning_content": "Hm", **block(thinking="Hm", signature="")},
                {"reasoning_content": "", **block(thinking="", signature="sig")},
            ],
            {"thinking_blocks": [{"type": "thinking", "thinking": "Hm", "signature": "sig"}]},
            id="litellm's second form of the same text",
        ),
        pytest.param(
            [
                {"reasoning": "I ", **detail("text", index=0, text="I ", format="a", id=None)},
                {"reasoning": "look.", **detail("text", index=0, text="look.")},
                detail("text", index=0, signature="sig", text=""),
                detail("encrypted", index=1, data="abc", id="rs_1"),
                detail("encrypted", index=2, data="def", id="rs_2"),
            ],
            {
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "index": 0,
                        "text": "I look.",
                        "format": "a",
                        "id": None,
                        "signature": "sig",
                    },
                    {"type": "reasoning.encrypted", "index": 1, "data": "abc", "id": "rs_1"},
                    {"type": "reasoning.encrypted", "index": 2, "data": "def", "id": "rs_2"},
                ]
            },
            id="OpenRouter, texts and encrypted items",
        ),
        pytest.param(
            [
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I "}]}]},
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "go."}]}]},
                {"content": [{"type": "text", "text": "Yes."}]},
            ],
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I go."}]}]},
            id="Mistral's parts",
        ),
        pytest.param(
            [{"provider_specific_fields": {"thought_signatures": ["sig"], "citations": [1]}}],
            {"provider_specific_fields": {"thought_signatures": ["sig"]}},
            id="Gemini's signature of a text, through litellm",
        ),
        pytest.param(
            [{"reasoning_items": [{"type": "reasoning", "id": "rs", "encrypted_content": "e"}]}],
            {"reasoning_items": [{"type": "reasoning", "id": "rs", "encrypted_content": "e"}]},
            id="OpenAI's items, through litellm",
        ),
        pytest.param(
            [{"content": "<think>I look.</think>Yes."}], {}, id="marks in the text stay text"
        ),
        pytest.param(
            [{"reasoning_content": "a\ud83d"}, {"reasoning_content": "\ude00\0"}],
            {"reasoning_content": "a\U0001f600\ufffd"},
            id="halves of a character in two pieces, and what no event can hold",
        ),
    ],
)
def test_reasoning_is_recorded_as_its_provider_sent_it(
    deltas: Sequence[Delta], recorded: dict[str, JsonValue]
) -> None:
    assert record(*deltas) == recorded


class LitellmBlock(BaseModel):
    type: str = "thinking"
    thinking: str = "I look."
    signature: str | None = None


def test_objects_of_litellm_are_recorded_as_plain_fields() -> None:
    plain = {"type": "thinking", "thinking": "I look."}
    assert record({"thinking_blocks": [LitellmBlock()]}) == {"thinking_blocks": [plain]}


def test_too_long_text_is_cut_and_marked() -> None:
    found = record({"reasoning_content": 'a"\n' * 1_000}, room=900)
    assert isinstance(found["cut"], dict)
    assert found["cut"]["of"] == 3_000
    kept = found["reasoning_content"]
    assert isinstance(kept, str)
    assert found["cut"]["to"] == len(kept) > 100
    assert measure_json_bytes(json.dumps(found)) <= 900


def test_too_long_signed_blocks_are_left_out_but_for_their_text() -> None:
    found = record(block(thinking="I look. " * 500, signature="sig"), room=1_000)
    assert "thinking_blocks" not in found
    assert str(found["reasoning_content"]).startswith("I look. I look.")
    encrypted = record(detail("encrypted", data="a" * 5_000), room=1_000)
    assert encrypted == {"cut": {"of": 0, "to": 0}}


def test_what_is_beyond_the_limit_is_not_kept_in_memory() -> None:
    pieces: list[Delta] = [{"reasoning_content": "a" * 300_000}] * 20
    found = record(*pieces)
    assert isinstance(found["cut"], dict)
    assert len(str(found["reasoning_content"])) <= MAX_RECORD_BYTES


def test_reasoning_that_does_not_end_fails_the_answer() -> None:
    joiner, piece = ReasoningJoiner(), {"reasoning_content": "a" * 100_000}
    for _ in range(MAX_REASONING_BYTES // 100_030):
        joiner.add_piece(piece)
    with pytest.raises(ModelFailure, match="too_long: its reasoning is more than 8000000 bytes"):
        joiner.add_piece(piece)


def join_pieces(*pieces: Mapping[str, JsonValue]) -> JsonValue:
    joiner = ReasoningJoiner()
    for piece in pieces:
        joiner.add_piece(piece)
    found: JsonValue = json.loads(joiner.encode_record(MAX_RECORD_BYTES))
    return found


def test_long_reasoning_in_small_pieces_is_recorded_whole() -> None:
    said: JsonValue = {"type": "thinking", "thinking": "I look. ", "signature": ""}
    signed: JsonValue = {"type": "thinking", "thinking": "", "signature": "sig"}
    piece: Mapping[str, JsonValue] = {"thinking_blocks": [said]}
    whole: JsonValue = {"type": "thinking", "thinking": "I look. " * 14_000, "signature": "sig"}
    assert join_pieces(*[piece] * 14_000, {"thinking_blocks": [signed]}) == {
        "thinking_blocks": [whole]
    }
    assert join_pieces(*[{"thinking": "look "}] * 45_000) == {"thinking": "look " * 45_000}


def test_deeply_nested_reasoning_is_malformed_and_no_error_of_the_worker() -> None:
    nested: object = "a"
    for _ in range(700):
        nested = [nested]
    with pytest.raises(ModelFailure, match="nested too deep"):
        record({"reasoning_details": nested})


def test_number_that_is_none_of_json_is_recorded_as_text() -> None:
    found = record(detail("text", text="Hm", place=math.nan))
    assert found["reasoning_details"] == [{"type": "reasoning.text", "text": "Hm", "place": "nan"}]


@pytest.mark.parametrize(
    ("pieces", "signature"),
    [
        pytest.param(
            [{"index": 0, "id": "a", "extra_content": {"google": {"thought_signature": "s"}}}],
            {"extra_content": {"google": {"thought_signature": "s"}}},
            id="Gemini over OpenAI's protocol",
        ),
        pytest.param(
            [{"index": 0, "id": "a", "provider_specific_fields": {"thought_signature": "s"}}],
            {"provider_specific_fields": {"thought_signature": "s"}},
            id="Gemini through litellm",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "function": {"name": "look"}},
                {"index": 0, "function": {"provider_specific_fields": {"thought_signature": "s"}}},
            ],
            {"provider_specific_fields": {"thought_signature": "s"}},
            id="in a later piece, beside the name",
        ),
        pytest.param([{"index": 0, "id": "a", "function": {"name": "look"}}], None, id="none"),
    ],
)
def test_signature_beside_a_tool_call_is_read_with_the_call(
    pieces: Sequence[Delta], signature: JsonValue
) -> None:
    reading = ChunkReader()
    for piece in pieces:
        reading.read_chunk({"choices": [{"delta": {"tool_calls": [piece]}}]})
    (call,) = reading.tool_calls
    assert (json.loads(call.signature) if call.signature else None) == signature


def test_readable_text_is_that_of_the_first_field_that_has_one() -> None:
    text: JsonValue = {"type": "summary_text", "text": "It looks."}
    summary: JsonValue = {"type": "reasoning", "summary": [text]}
    assert read_reasoning_text({"reasoning_items": [summary]}) == "It looks."
    assert read_reasoning_text({"reasoning_details": [{"data": "abc"}]}) == ""
