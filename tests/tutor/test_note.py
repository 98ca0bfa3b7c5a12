"""The note of a withheld reply is in the calls of one turn, wherever a worker dies."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

import pytest
from pydantic import JsonValue

from tests.tutor.classroom import FORBIDDEN, NOTE
from tests.tutor.lessons import shipped
from tests.tutor.playhouse import Playhouse, impatient, noted
from turnlog.projections.prompt.session_material import SessionMaterial
from turnlog.projections.session.commands import ExcludeTurn, RedactReply
from turnlog.services.worker.model.model_types import ModelFailure, ModelRequest

DOWN: Final = ModelFailure("server_error", "down")
FORCED: Final[dict[str, JsonValue]] = {
    "safety": {"content_boundaries": ["weapons"], "intensity_ceiling": "low"},
    "phases": {
        "start": "talk",
        "talk": {
            "kind": "freeform",
            "max_exchanges": 1,
            "ai_transitions": {"on_max_exchanges": "debrief"},
        },
        "debrief": {"kind": "debrief", "next": "end"},
        "end": {"kind": "static"},
    },
}
"""A dialogue that ends after one exchange."""


DRAW: Final = shipped("lucky-draw")
BLUEPRINT: Final = impatient(DRAW.blueprint)


async def playing(cartridge: dict[str, JsonValue] | None = None) -> Playhouse:
    play = Playhouse(SessionMaterial(BLUEPRINT, cartridge or DRAW.cartridge))
    await play.open()
    await play.submit("One")
    return play


def carries(request: ModelRequest) -> bool:
    return NOTE in str(request.messages[0]["content"])


def turns_told(play: Playhouse) -> set[int]:
    """Return the turns whose calls all include the note; a turn with some is an error."""
    told = {call.turn for call in play.calls if noted(call)}
    assert all(noted(call) for call in play.calls if call.turn in told)
    return told


def requests_told(play: Playhouse, text: str) -> None:
    """Require the note in exactly the requests whose last message is `text`."""
    for request in play.house.model.requests:
        assert carries(request) == (request.messages[-1]["content"] == text)


async def test_the_next_turn_carries_the_note_all_its_tries_do_and_no_other_turn() -> None:
    play = await playing()
    await play.answer(FORBIDDEN)
    await play.submit("Two")
    play.house.model.scripts = [[DOWN], [DOWN], ["fine"]]
    await play.answer()
    await play.submit("Three")
    play.house.model.scripts = [[DOWN], ["fine"]]
    await play.answer()
    assert turns_told(play) == {2}
    requests_told(play, "Two")
    assert len(play.house.model.requests) == 6


async def deaths(*, tries: int) -> AsyncGenerator[tuple[int, Playhouse]]:
    """Cancel the worker of turn 2 after each possible number of steps, and let another continue."""
    ended, step = False, 0
    while not ended:
        play = await playing()
        await play.answer(FORBIDDEN)
        await play.submit("Two")
        play.house.model.scripts = [[DOWN]] * (tries - 1)
        ended = await play.killed(step)
        play.house.model.scripts = []
        await play.answer()
        yield step, play
        step += 1


@pytest.mark.parametrize("tries", [1, 2])
async def test_a_worker_that_dies_anywhere_before_the_next_answer_neither_repeats_nor_loses_it(
    tries: int,
) -> None:
    steps = 0
    async for step, play in deaths(tries=tries):
        await play.submit("Three")
        await play.answer("fine")
        assert turns_told(play) == {2}, step
        requests_told(play, "Two")
        steps = step
    assert steps > 20


async def test_a_worker_that_dies_anywhere_while_it_withholds_the_reply_changes_nothing() -> None:
    ended, step = False, 0
    while not ended:
        play = await playing()
        play.house.model.scripts = [["Hm. ", FORBIDDEN]]
        ended = await play.killed(step)
        await play.answer("Hm. ", FORBIDDEN)
        for text in ("Two", "Three"):
            await play.submit(text)
            await play.answer("fine")
        assert turns_told(play) == {2}, step
        assert play.house.names().count("reply-redacted") == 1
        step += 1


async def test_a_debrief_after_a_withheld_reply_carries_it_wherever_its_worker_dies() -> None:
    ended, step = False, 0
    while not ended:
        play = await playing(FORCED)
        await play.answer(FORBIDDEN)
        ended = await play.killed(step)
        await play.answer("Now look.")
        assert turns_told(play) == {2}, step
        assert {call.manifest.kind for call in play.calls if noted(call)} == {"debrief"}
        step += 1


async def test_a_turn_that_fails_before_its_prompt_is_fixed_leaves_the_note_to_the_next() -> None:
    play = await playing()
    await play.answer(FORBIDDEN)
    await play.submit("x" * 400_000)
    await play.answer()
    assert play.house.names()[-1] == "turn-failed"
    await play.submit("Three")
    await play.answer("fine")
    assert turns_told(play) == {3}


async def test_a_reply_withheld_by_a_person_is_noted_though_a_later_turn_has_failed() -> None:
    play = await playing()
    await play.answer("fine")
    await play.submit("Two")
    await play.answer(ModelFailure("unauthorised"))
    await play.act(RedactReply(1, "wrong", "operator", "(Withheld.)"))
    for text in ("Three", "Four"):
        await play.submit(text)
        await play.answer("fine")
    assert turns_told(play) == {3}


async def test_an_older_reply_withheld_by_a_person_is_no_previous_response() -> None:
    play = await playing()
    await play.answer("fine")
    await play.submit("Two")
    await play.answer("fine")
    await play.act(RedactReply(1, "wrong", "operator", "(Withheld.)"))
    await play.submit("Three")
    await play.answer("fine")
    assert turns_told(play) == set()


async def test_a_call_that_stands_in_for_another_carries_the_note_as_the_other_did() -> None:
    play = await playing()
    await play.answer("Hm.")
    await play.submit("Two")
    await play.answer(FORBIDDEN)
    await play.submit("Three")
    assert not await play.killed_when(lambda: len(play.calls) == 3)
    await play.act(ExcludeTurn(1))
    await play.answer("fine")
    assert [(call.call, call.supersedes) for call in play.calls][2:] == [
        ("3.1", None), ("3.2", "3.1"),
    ]  # fmt: skip
    assert turns_told(play) == {3}
