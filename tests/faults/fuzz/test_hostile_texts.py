"""The rule engine, the bounds of responses and the reader of JSON, under random attack.

A fixed number of rounds in the suite, ten minutes each with FAULTS=all. Each attack runs on an
event loop with the probe, as in a worker, and the longest hold is printed.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, Literal, get_args

import httpx
import pytest
from pydantic import JsonValue

from tests.faults.loop_holds import check_loop_holds
from tests.faults.suite_extent import RUN_EVERYTHING
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.bounded_json import MAX_JSON_NESTING, InvalidJson, parse_json
from turnlog.projections.blueprint.linear_patterns import (
    MATCH_REACH,
    compile_pattern,
    find_pattern_fault,
)
from turnlog.projections.structured_output.json_repair import InvalidAnswer, validate_answer
from turnlog.projections.tools.result_condensation import parse_members
from turnlog.services.http.strict_json import check_strict_json
from turnlog.services.platform.concurrency import run_text_work
from turnlog.services.worker.attempts.output_guard import GuardViolation, OutputGuard
from turnlog.services.worker.model.bounded_responses import (
    MAX_ERROR_BYTES,
    MAX_FRAME_BYTES,
    BoundedBody,
)
from turnlog.services.worker.model.model_types import ModelFailure

ROUNDS: Final = 60

SECONDS: Final = 600

pytestmark = pytest.mark.timeout(2 * SECONDS)

ATOMS: Final = ("a", "b", "@", r"\w", r"\S", r"\d", ".", "[ab]", r"\s", r"\b", "^", "$", "é")

MARKS: Final = ("", "", "*", "+", "?", "{2,30}", "{0,200}", "*?")

UNITS: Final = ("a", "ab", "@", "a@", ". ", "\n", "é", "aaab", "1", "a.b@c.d ", "!'", " ")

HoldBack = Literal["none", "sentence", "reply"]


def draw_pattern(chance: random.Random, depth: int = 2) -> str:
    """Draw a pattern as an author could write it, with repetitions inside repetitions."""
    parts: list[str] = []
    for _ in range(chance.randint(1, 4)):
        inner = depth > 0 and chance.random() < 0.4
        atom = f"(?:{draw_pattern(chance, depth - 1)})" if inner else chance.choice(ATOMS)
        parts.append(atom + ("" if atom in {r"\b", "^", "$"} else chance.choice(MARKS)))
    return chance.choice(("", "|")).join(parts)


def draw_text(chance: random.Random, length: int) -> str:
    """Draw a text of long runs."""
    text = ""
    while len(text) < length:
        text += chance.choice(UNITS) * chance.choice((1, 3, 50, length))
    return text[:length]


def iterate_pieces(chance: random.Random, text: str) -> Iterator[str]:
    size = chance.choice((7, 200, 10_000, len(text)))
    return (text[at : at + size] for at in range(0, len(text), size))


async def attack_guard(chance: random.Random) -> None:
    """Stream a hostile reply through a guard with a random pattern."""
    pattern = draw_pattern(chance)
    if await asyncio.to_thread(find_pattern_fault, pattern):
        return
    rule = compile_pattern(pattern)
    if "(" not in pattern:  # Python's engine is busy for seconds with six characters and groups
        short = draw_text(chance, 6)
        known = re.search(translate_pattern(pattern), short)
        assert rule.has_match(short) is bool(known), (pattern, short)
    text = draw_text(chance, chance.choice((50, 5_000, 100_000)))
    guard = OutputGuard(
        hold_back=chance.choice(get_args(HoldBack)),
        rules=(("fuzz", lambda written: "it matches" if rule.has_match(written) else None),),
    )
    released_text = ""
    for piece in [*iterate_pieces(chance, text), None]:
        released = await (guard.release_rest() if piece is None else guard.add_text(piece))
        if isinstance(released, GuardViolation):
            assert text.startswith(released_text)
            return
        released_text += released
        await asyncio.sleep(0)  # As the reader of a response does
    assert released_text == text
    assert len(text) > MATCH_REACH or not rule.has_match(text)


def translate_pattern(pattern: str) -> str:
    """Return the same pattern for Python, where `$` also matches before a last line end."""
    return pattern.replace("$", r"\Z")


class PieceBody(httpx.AsyncByteStream):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


KINDS: Final = ("text/event-stream", "application/json", "application/vnd.amazon.eventstream", "")

FRAME_PARTS: Final = (
    b"data: ",
    b"\n\n",
    b"\r\n\r\n",
    b"\n",
    b'{"error": {',
    b"x",
    b"\0\0\1\0",
    b"[",
)


async def attack_bounds(chance: random.Random) -> None:
    """Read a hostile body, and check that no more passes than may."""
    parts = [
        chance.choice(FRAME_PARTS) * chance.choice((1, 1, 3, 10_000, 300_000))
        for _ in range(chance.randint(1, 12))
    ]
    whole = await asyncio.to_thread(b"".join, parts)
    size = chance.choice((100, 4_096, 70_000, len(whole)))
    status = chance.choice((200, 200, 400, 500))
    kind = chance.choice(KINDS)
    pieces = (whole[at : at + size] for at in range(0, len(whole), size))
    response = httpx.Response(status, headers={"content-type": kind})
    passed: list[bytes] = []
    with suppress(ModelFailure):
        async for piece in BoundedBody(PieceBody(pieces), response):
            passed.append(piece)  # noqa: PERF401 - what passed before a failure counts
    await asyncio.to_thread(check_passed, b"".join(passed), whole, kind, status)


def check_passed(passed: bytes, whole: bytes, kind: str, status: int) -> None:
    """Check what came through of a body; not on the event loop, which is measured."""
    assert whole.startswith(passed)
    if status >= httpx.codes.BAD_REQUEST:
        assert passed == whole[:MAX_ERROR_BYTES]
    elif kind != KINDS[2]:
        end = b"\n\n" if kind == KINDS[0] else b"\n"
        assert max(map(len, passed.replace(b"\r\n", b"\n").split(end))) <= MAX_FRAME_BYTES


JSON_UNITS: Final = (
    *("[", "]", "{", "}", ",", ":", '"', "\\", " ", "\n", "0", "-1", "1e999", "9" * 40, "null"),
    *(
        "NaN",
        '"a"',
        '{"a":',
        '{"a":1},',
        "[1],",
        '"\\ud83d"',
        "\\u0000",
        "```",
        "```json\n",
        "\ufeff",
    ),
    *("é", "'", "//", "true,"),
)

ANYTHING: Final[dict[str, JsonValue]] = {
    "type": "object",
    "additionalProperties": {"$ref": "#"},
}


def draw_json(chance: random.Random, length: int) -> str:
    """Draw what begins like JSON and goes wrong somewhere, or does not."""
    if chance.random() < 0.3:
        depth = chance.choice((1, MAX_JSON_NESTING - 2, MAX_JSON_NESTING - 1, 1_000, length // 2))
        item = chance.choice(('{"a": [1, null]}', '"x"', "1.5", '{"a": 1, "a": 2}'))
        items = ",".join([item] * chance.choice((1, 50, max(1, length // len(item)))))
        return "[" * depth + items + "]" * (depth - chance.choice((0, 0, 1)))
    text = ""
    while len(text) < length:
        text += chance.choice(JSON_UNITS) * chance.choice((1, 1, 3, 66, length))
    return text[:length]


async def attack_json(chance: random.Random) -> None:
    """Read a hostile text as a frame, a body, an answer and a result of a tool."""
    text = draw_json(chance, chance.choice((20, 5_000, 100_000, MAX_FRAME_BYTES // 2)))
    value: JsonValue | InvalidJson
    try:
        value = parse_json(text)
    except InvalidJson as refused:
        value = refused
    await run_text_work(partial(check_value, value), len(text))
    await run_text_work(partial(check_readers, text), len(text))


def check_value(value: JsonValue | InvalidJson) -> None:
    """Check that what was read is bounded and can be written, or refused without its text."""
    if isinstance(value, InvalidJson):
        assert len(str(value)) < 120
        return
    level = [value]
    for _ in range(MAX_JSON_NESTING + 1):
        level = [inner for each in level for inner in list_inner(each)]
    assert level == []
    assert parse_json(json.dumps(value, allow_nan=False)) == value


def list_inner(value: JsonValue) -> list[JsonValue]:
    match value:
        case dict():
            return [*value.values()]
        case list():
            return value
        case _:
            return []


def check_readers(text: str) -> None:
    """Check that every reader of strangers takes a text or refuses it."""
    with suppress(Refused):
        check_strict_json(text.encode())
    with suppress(InvalidAnswer):
        json.loads(validate_answer(text, ANYTHING).text)
    parse_members(text)


@pytest.mark.promise("P21")
@pytest.mark.parametrize("attack", [attack_guard, attack_bounds, attack_json])
async def test_no_text_of_a_model_blocks_the_event_loop(
    attack: Callable[[random.Random], Awaitable[None]],
) -> None:
    seed = time.time_ns() if RUN_EVERYTHING else 20_261_122
    chance, rounds, began = random.Random(seed), 0, time.monotonic()  # noqa: S311 - attacks, no keys
    print(f"\n{attack.__name__}: seed {seed}")
    async with check_loop_holds(attack.__name__):
        while time.monotonic() - began < SECONDS if RUN_EVERYTHING else rounds < ROUNDS:
            await attack(chance)
            await asyncio.sleep(0)
            rounds += 1
    print(f"{attack.__name__}: {rounds} rounds")
