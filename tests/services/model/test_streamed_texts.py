"""Where in a chunk text can stand, how an answer may end, and where its usage is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from turnlog.services.worker.model.answers.answer_end import build_finished
from turnlog.services.worker.model.answers.chunk_reader import ChunkReader
from turnlog.services.worker.model.answers.reported_usage import read_reported_usage
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    ModelFailure,
    ModelUsage,
)

Choice = Mapping[str, object]


def read_text(*choices: Choice) -> str:
    reading = ChunkReader()
    texts = [reading.read_chunk({"choices": [choice]})[0] for choice in choices]
    return "".join([*texts, reading.read_rest()])


@pytest.mark.parametrize(
    "choices",
    [
        pytest.param(
            [{"delta": {"content": "Good"}}, {"delta": {"content": " day."}}], id="content"
        ),
        pytest.param(
            [{"delta": {"content": [{"type": "text", "text": "Good"}, {"text": " day."}]}}],
            id="parts",
        ),
        pytest.param(
            [
                {"delta": {"content": [{"type": "thinking", "thinking": [{"text": "Hm"}]}]}},
                {"delta": {"content": [{"type": "text", "text": "Good day."}]}},
            ],
            id="parts with reasoning",
        ),
        pytest.param(
            [{"delta": {"content": ["Good day.", {"type": "reference", "reference_ids": [1]}]}}],
            id="parts with a reference",
        ),
        pytest.param(
            [{"delta": {"refusal": "Good"}}, {"delta": {"refusal": " day."}}], id="refusal"
        ),
        pytest.param(
            [{"delta": {"content": [{"type": "refusal", "refusal": "Good day."}]}}],
            id="refusal part",
        ),
        pytest.param([{"text": "Good"}, {"text": " day."}], id="the protocol of completions"),
        pytest.param([{"message": {"content": "Good day."}}], id="a whole message"),
        pytest.param(
            [{"delta": {"content": "Good day."}}, {"message": {"content": "Good day."}}],
            id="pieces, and the whole message after them",
        ),
    ],
)
def test_text_is_read_wherever_it_stands(choices: list[Choice]) -> None:
    assert read_text(*choices) == "Good day."


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["smile \ud83d", "\ude00 end"], "smile \U0001f600 end"),
        (["\ud83d", "", "\ude00"], "\U0001f600"),
        (["a\ud83d", "b"], "a\ufffdb"),
        (["a\ude00", "\ud83d"], "a\ufffd\ufffd"),
        (["\ud83d", "\ud83d", "\ude00"], "\ufffd\U0001f600"),
    ],
)
def test_halves_of_a_surrogate_pair_in_two_chunks_are_one_character(
    pieces: list[str], text: str
) -> None:
    assert read_text(*({"delta": {"content": each}} for each in pieces)) == text


@pytest.mark.parametrize(
    ("delta", "name"),
    [
        ({"content": [{"type": "video_url", "video_url": "x"}]}, "video_url"),
        ({"images": [{"type": "image_url"}]}, "image_url"),
        ({"content": [{"type": "image_url", "image_url": "x"}]}, "image_url"),
        (
            {"images": [{"type": "image_url", "image_url": {"url": "data:image/png,x"}}]},
            "image_url",
        ),
    ],
)
def test_an_answer_of_another_kind_fails_with_what_came(
    delta: Mapping[str, object], name: str
) -> None:
    with pytest.raises(ModelFailure, match=f"malformed: .*'{name}'.* not read") as failure:
        read_text({"delta": delta})
    assert failure.value.unread


@pytest.mark.parametrize(
    "name",
    ["reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks"],
)
def test_reasoning_of_any_name_counts_as_a_token(name: str) -> None:
    assert ChunkReader().read_chunk({"choices": [{"delta": {name: "Hm."}}]}) == ("", True)


def end_answer(reason_name: str | None, *, refusal: str = "") -> FinishedAnswer:
    reading = ChunkReader()
    reading.read_chunk({"choices": [{"delta": {"content": "Good day.", "refusal": refusal}}]})
    return build_finished(
        reading, reason_name=reason_name, usage=None, requested_model="openai/heron"
    )


@pytest.mark.parametrize(
    ("reason_name", "finish", "sent"),
    [
        ("STOP", "stop", None),
        ("model_context_window_exceeded", "length", None),
        ("max_output_tokens", "length", None),
        ("pause_turn", "other", "pause_turn"),
        ("insufficient_system_resource", "other", "insufficient_system_resource"),
        ("unknown", "other", "unknown"),
        ("Out of Tokens", "other", "Out of Tokens"),
        ("n" * 65, "other", "(no word)"),
        ("sk-proj-4f2a", "other", "(no word)"),
        ("half \ud800", "other", "(no word)"),
    ],
)
def test_a_whole_answer_stays_one_whatever_its_finish_reason(
    reason_name: str, finish: str, sent: str | None
) -> None:
    end = end_answer(reason_name)
    assert (end.finish_reason, end.finish_sent) == (finish, sent)


@pytest.mark.parametrize("reason_name", [None, "error", "ABORT", "network_error", "timeout"])
def test_a_stream_that_broke_is_no_answer(reason_name: str | None) -> None:
    with pytest.raises(ModelFailure, match="incomplete"):
        end_answer(reason_name)


def test_a_refusal_ends_as_one() -> None:
    assert end_answer("stop", refusal="I cannot help.").finish_reason == "content_filter"


_COUNTS: Mapping[str, object] = {"prompt_tokens": 90, "completion_tokens": 40}


@pytest.mark.parametrize(
    ("chunk", "usage"),
    [
        ({"usage": _COUNTS}, ModelUsage(90, 40)),
        ({"choices": [{"usage": _COUNTS}]}, ModelUsage(90, 40)),
        ({"choices": [{"delta": {"usage": _COUNTS}}]}, ModelUsage(90, 40)),
        ({"x_groq": {"usage": _COUNTS}}, ModelUsage(90, 40)),
        ({"usage": {"input_tokens": 90, "output_tokens": 40}}, ModelUsage(90, 40)),
        (
            {"usage": {**_COUNTS, "prompt_cache_hit_tokens": 64}},
            ModelUsage(90, 40, cached_input_tokens=64),
        ),
        ({"usage": {**_COUNTS, "cached_tokens": 64}}, ModelUsage(90, 40, cached_input_tokens=64)),
        (
            {"usage": {**_COUNTS, "output_tokens_details": {"reasoning_tokens": 30}}},
            ModelUsage(90, 40, reasoning_tokens=30),
        ),
    ],
)
def test_usage_is_read_wherever_it_stands(chunk: Mapping[str, object], usage: ModelUsage) -> None:
    assert read_reported_usage([chunk]) == usage
