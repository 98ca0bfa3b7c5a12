"""Which call each streamed piece of a tool call belongs to, in all the shapes of servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from turnlog.services.worker.model.answers.chunk_reader import ChunkReader
from turnlog.services.worker.model.model_types import ModelFailure

Piece = Mapping[str, object]


def build_piece(
    name: str | None = None, arguments: object = None, **place: int | str | None
) -> Piece:
    """Return a piece with only the fields that are given."""
    function = {"name": name, "arguments": arguments}
    return {**place, "function": {key: each for key, each in function.items() if each is not None}}


def read_calls(*chunks: Sequence[Piece]) -> list[tuple[str, str, str]]:
    reading = ChunkReader()
    for pieces in chunks:
        reading.read_chunk({"choices": [{"delta": {"tool_calls": pieces}}]})
    return [(call.id, call.name, call.arguments) for call in reading.tool_calls]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [[build_piece("look", {"x": "ü"}, index=0, id="a")]], id="arguments as an object"
        ),
        pytest.param(
            [
                [build_piece("look", "", index=0, id="a")],
                [build_piece(None, {"x": "ü"}, index=0)],
            ],
            id="an object after the name",
        ),
        pytest.param(
            [[build_piece("look", None, id="a")], [build_piece(None, '{"x": "ü"}')]],
            id="no index",
        ),
        pytest.param(
            [
                [build_piece("look", '{"x": ', index=0)],
                [build_piece(None, '"ü"}', index=0, id="a")],
            ],
            id="the id comes late",
        ),
        pytest.param(
            [
                [build_piece("look", '{"x": ', index=0, id="a")],
                [build_piece("look", '"ü"}', index=0, id="a")],
            ],
            id="name and id in each piece",
        ),
        pytest.param(
            [
                [build_piece("look", '{"x": "', index=0, id="a")],
                [build_piece("look", 'ü"', index=0)],
                [build_piece("look", "}", index=0)],
            ],
            id="the name in each piece",
        ),
        pytest.param(
            [[{"id": "a", "name": "look", "arguments": '{"x": "ü"}'}]], id="no function around it"
        ),
        pytest.param(
            [[build_piece("look", '{"x": "ü"}', index="0", id="a")]],
            id="an index that is no number",
        ),
    ],
)
def test_one_call_is_read_from_any_shape_of_pieces(chunks: Sequence[Sequence[Piece]]) -> None:
    assert read_calls(*chunks) == [("a", "look", '{"x": "ü"}')]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [
                [build_piece("look", '{"x":"}"}', index=0, id="")],
                [build_piece("wait", "{}", index=0, id="")],
            ],
            id="index 0 and empty ids",
        ),
        pytest.param(
            [[build_piece("look", '{"x":"}"}'), build_piece("wait", "{}")]],
            id="neither index nor id, in one chunk",
        ),
        pytest.param(
            [[build_piece("look", '{"x":"}"}')], [build_piece("wait", "{}")]],
            id="neither index nor id, in two chunks",
        ),
        pytest.param(
            [
                [build_piece("look", '{"x":"')],
                [build_piece(None, '}"}')],
                [build_piece("wait", {})],
            ],
            id="neither, one of them in pieces, the other an object",
        ),
        pytest.param(
            [
                [build_piece("look", '{"x":"', index=0), build_piece("wait", "{", index=1)],
                [build_piece(None, '}"}', index=0), build_piece(None, "}", index=1)],
            ],
            id="interleaved by index",
        ),
    ],
)
def test_two_calls_without_ids_stay_two(chunks: Sequence[Sequence[Piece]]) -> None:
    assert read_calls(*chunks) == [("", "look", '{"x":"}"}'), ("", "wait", "{}")]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [
                [
                    build_piece("look", "{}", index=0, id="a"),
                    build_piece("look", "{}", index=0, id="b"),
                ]
            ],
            id="one index",
        ),
        pytest.param(
            [
                [build_piece("look", "{", id="a"), build_piece("look", "{", id="b")],
                [build_piece(None, "}", id="a"), build_piece(None, "}", id="b")],
            ],
            id="no index, interleaved by id",
        ),
    ],
)
def test_two_calls_of_one_tool_are_told_apart_by_their_ids(
    chunks: Sequence[Sequence[Piece]],
) -> None:
    assert read_calls(*chunks) == [("a", "look", "{}"), ("b", "look", "{}")]


def test_two_calls_of_one_tool_in_one_chunk_need_no_id() -> None:
    assert read_calls([build_piece("look"), build_piece("look")]) == [("", "look", "")] * 2


def test_the_call_of_the_protocols_first_form_is_read() -> None:
    reading = ChunkReader()
    for function in (
        {"name": "look", "arguments": ""},
        {"arguments": '{"x"'},
        {"arguments": ":1}"},
    ):
        reading.read_chunk({"choices": [{"delta": {"function_call": function}}]})
    assert [(call.name, call.arguments) for call in reading.tool_calls] == [("look", '{"x":1}')]


def test_halves_of_a_pair_in_two_pieces_of_arguments_are_joined() -> None:
    pieces = (
        [build_piece("look", '{"x":"\ud83d', index=0)],
        [build_piece(None, '\ude00"}', index=0)],
    )
    assert read_calls(*pieces) == [("", "look", '{"x":"\U0001f600"}')]


@pytest.mark.parametrize(
    ("pieces", "unread"),
    [
        ([build_piece("look", ["x", 1], index=0)], '["x", 1]'),
        ([build_piece("look", 7, index=0)], "7"),
        ([build_piece("look", '{"a":1', index=0), build_piece(None, {"b": 2}, index=0)], '{"a":1'),
    ],
)
def test_arguments_that_cannot_be_read_fail_with_what_came(
    pieces: Sequence[Piece], unread: str
) -> None:
    with pytest.raises(ModelFailure, match="malformed: the arguments of") as failure:
        read_calls(pieces)
    assert failure.value.unread == unread


def test_answer_of_calls_without_end_fails_before_it_holds_the_event_loop() -> None:
    chunks = [[{"index": each}] for each in range(2_000)]
    with pytest.raises(ModelFailure, match="too_long: it has more than 1024 tool calls"):
        read_calls(*chunks)


def test_chunk_of_pieces_without_end_fails_before_it_holds_the_event_loop() -> None:
    with pytest.raises(ModelFailure, match="too_long: a chunk of it has 130000 pieces"):
        ChunkReader().read_chunk({"choices": [{"delta": {"tool_calls": [1] * 130_000}}]})


def test_long_arguments_that_go_on_after_their_end_are_cut_to_what_an_event_can_hold() -> None:
    pieces = [build_piece("look", "x\ud800\0" * 50_000, index=0), build_piece(None, {}, index=0)]
    with pytest.raises(ModelFailure, match="go on after their end") as failure:
        read_calls(pieces)
    assert failure.value.unread == ("x\ufffd\ufffd" * 50_000)[:20_000]
