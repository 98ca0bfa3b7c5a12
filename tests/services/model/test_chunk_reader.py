"""How chunks and lines of providers that no test can call are parsed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace as Chunk

import pytest

from turnlog.services.worker.model.answers.answer_end import MAX_RESPONSE_ID, build_finished
from turnlog.services.worker.model.answers.chunk_reader import ChunkReader
from turnlog.services.worker.model.answers.reported_usage import read_reported_usage
from turnlog.services.worker.model.litellm_library import (
    MAX_USAGES,
    RawStreamCheck,
    ReportedUsages,
)
from turnlog.services.worker.model.model_types import ModelFailure, ModelToolCall, ModelUsage


def build_tool_chunk(
    index: int, name: str | None, arguments: str, call_id: str | None = None
) -> Chunk:
    function = Chunk(name=name, arguments=arguments)
    part = Chunk(index=index, id=call_id, function=function)
    return Chunk(choices=[Chunk(delta=Chunk(content=None, tool_calls=[part]))])


def test_interleaved_tool_call_parts_are_assembled_by_index() -> None:
    reading = ChunkReader()
    for chunk in (
        build_tool_chunk(0, "look", "", "a"),
        build_tool_chunk(2, "wait", "", "b"),
        build_tool_chunk(0, None, '{"x":'),
        build_tool_chunk(2, None, "{}"),
        build_tool_chunk(0, None, "1}"),
    ):
        reading.read_chunk(chunk)
    assert reading.tool_calls == (
        ModelToolCall("a", "look", '{"x":1}'),
        ModelToolCall("b", "wait", "{}"),
    )


def test_two_tool_calls_with_one_index_are_kept_apart() -> None:
    reading = ChunkReader()
    reading.read_chunk(build_tool_chunk(0, "look", "{}", "a"))
    reading.read_chunk(build_tool_chunk(0, "wait", "{}", "b"))
    assert [call.name for call in reading.tool_calls] == ["look", "wait"]


def test_stop_with_tool_calls_is_reported_as_tool_calls() -> None:
    reading = ChunkReader()
    reading.read_chunk(build_tool_chunk(0, "look", "{}", "a"))
    end = build_finished(reading, reason_name="stop", usage=None, requested_model="openai/heron")
    assert (end.finish_reason, end.model) == ("tool_calls", "openai/heron")


@pytest.mark.parametrize(
    "beside",
    [
        {"reasoning_content": "Hm."},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}]},
        {"refusal": "No."},
        {"audio": {"data": "UklGRg=="}},
    ],
)
def test_what_is_beside_a_text_is_read_too(beside: dict[str, object]) -> None:
    reading = ChunkReader()
    unused = {"role": "assistant", "function_call": None}
    text, _ = reading.read_chunk(
        {"choices": [{"delta": {"content": "Yes. ", **unused, **beside}}]},
    )
    reasoning, recording = reading.pop_reasoning(), reading.read_rest()
    rest = list(reading.split_deltas(recording))
    assert text.startswith("Yes. ")
    assert reasoning or reading.tool_calls or reading.has_refused or rest


def test_text_without_anything_beside_it_follows_no_earlier_reasoning() -> None:
    reading = ChunkReader()
    reading.read_chunk({"choices": [{"delta": {"content": "", "reasoning_content": "Hm."}}]})
    assert reading.read_chunk({"choices": [{"delta": {"content": "Yes."}}]}) == ("Yes.", True)
    assert reading.pop_reasoning() is None


def test_reasoning_counts_as_a_token_but_not_as_text() -> None:
    delta = Chunk(content=None, tool_calls=None, reasoning_content="Hm.")
    assert ChunkReader().read_chunk(Chunk(choices=[Chunk(delta=delta)])) == ("", True)


def test_usage_from_several_chunks_is_merged() -> None:
    chunks = [
        Chunk(usage=Chunk(prompt_tokens=90, completion_tokens=1)),
        Chunk(usage=None),
        Chunk(usage=Chunk(prompt_tokens=0, completion_tokens=40)),
    ]
    assert read_reported_usage(chunks) == ModelUsage(90, 40)


def test_usage_of_zeros_counts_as_not_reported() -> None:
    chunks = [Chunk(usage=Chunk(prompt_tokens=0, completion_tokens=0))]
    assert read_reported_usage(chunks) is None


async def iterate_lines(*each: str) -> AsyncIterator[object]:
    for line in each:
        yield line


@pytest.mark.parametrize(
    ("line", "finish"),
    [
        ('data: {"candidates": [{"finishReason": "RECITATION"}]}', "RECITATION"),
        ('data: {"type": "message_delta", "delta": {"stop_reason": "refusal"}}', "refusal"),
        ('data: {"choices": [{"delta": {}, "finish_reason": "length"}]}', "length"),
        ('data: {"choices": null, "candidates": 3, "delta": []}', None),
        ("data: [DONE]", None),
        ("event: ping", None),
    ],
)
async def test_raw_stream_check_passes_lines_through_and_records_the_finish_reason(
    line: str, finish: str | None
) -> None:
    witness = RawStreamCheck(iterate_lines(line), strict=True)
    assert [each async for each in witness] == [line]
    assert witness.finish == finish


@pytest.mark.parametrize(
    ("line", "response_id"),
    [
        ('data: {"id": "chatcmpl-1", "choices": []}', "chatcmpl-1"),
        ('data: {"type": "message_start", "message": {"id": "msg_1"}}', "msg_1"),
        ('data: {"responseId": "gem-1", "candidates": []}', "gem-1"),
        ('data: {"id": 3, "message": ["msg_1"]}', None),
        ('data: {"id": ""}', None),
    ],
)
async def test_raw_stream_check_records_the_response_id(line: str, response_id: str | None) -> None:
    witness = RawStreamCheck(iterate_lines(line), strict=True)
    assert [each async for each in witness] == [line]
    assert witness.response_id == response_id


def test_overlong_response_id_is_not_recorded() -> None:
    reading = ChunkReader()
    reading.read_chunk(build_tool_chunk(0, "look", "{}", "a"))
    ids = {
        length: build_finished(
            reading,
            reason_name="stop",
            usage=None,
            requested_model="openai/heron",
            response_id="i" * length,
        ).response_id
        for length in (MAX_RESPONSE_ID, MAX_RESPONSE_ID + 1)
    }
    assert ids == {MAX_RESPONSE_ID: "i" * MAX_RESPONSE_ID, MAX_RESPONSE_ID + 1: None}


async def test_strict_raw_stream_check_rejects_a_malformed_line() -> None:
    with pytest.raises(ModelFailure, match="malformed"):
        await anext(RawStreamCheck(iterate_lines('data: {"choices"'), strict=True))
    assert await anext(RawStreamCheck(iterate_lines('data: {"choices"'), strict=False))


@pytest.mark.parametrize("word", ["", "null", "NULL", "none", " "])
async def test_word_that_says_that_nothing_ended_is_no_finish_reason(word: str) -> None:
    line = f'data: {{"choices": [{{"finish_reason": "{word}"}}]}}'
    witness = RawStreamCheck(iterate_lines(line), strict=True)
    await anext(witness)
    assert witness.finish is None
    reading = ChunkReader()
    reading.read_chunk({"choices": [{"delta": {"content": "Half of"}}]})
    with pytest.raises(ModelFailure, match="incomplete: it ended with no finish reason"):
        build_finished(reading, reason_name=word, usage=None, requested_model="openai/heron")


def test_server_that_reports_usage_in_each_chunk_costs_no_memory_for_each() -> None:
    usages = ReportedUsages()
    for count in range(1, 1_001):
        usages.append({"usage": {"prompt_tokens": 7 if count == 1 else 0, "output_tokens": count}})
    assert len(usages.chunks) == 1 + MAX_USAGES
    assert read_reported_usage(usages.chunks) == ModelUsage(7, 1_000)
