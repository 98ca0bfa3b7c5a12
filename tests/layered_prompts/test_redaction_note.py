"""The note of a withheld reply is in the calls of one turn, wherever a worker dies."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

import pytest
from pydantic import JsonValue

from tests.layered_prompts.crashing_workers import (
    CrashingSession,
    has_redaction_note,
    remove_retry_delays,
)
from tests.layered_prompts.tutor_service import FORBIDDEN, NOTE
from tests.layered_prompts.tutor_sessions import load_shipped_material
from tests.simulation.processes.simulated_loop import run_immediately
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import ExcludeTurn
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.services.platform import concurrency
from turnlog.services.worker.model.model_types import ModelFailure, ModelRequest

DOWN: Final = ModelFailure("server_error", "down")


@pytest.fixture(autouse=True)
def threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do the work of threads at once: a worker that waits for a real one has no number of steps."""
    monkeypatch.setattr(concurrency, "start_new_thread", run_immediately)


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

DRAW: Final = load_shipped_material("lucky-draw")

BLUEPRINT: Final = remove_retry_delays(DRAW.blueprint)


async def open_crashing_session(cartridge: dict[str, JsonValue] | None = None) -> CrashingSession:
    play = CrashingSession(
        SessionMaterial(blueprint=BLUEPRINT, cartridge=cartridge or DRAW.cartridge)
    )
    await play.open_session()
    await play.submit_text("One")
    return play


def has_note(request: ModelRequest) -> bool:
    return NOTE.partition(". ")[0] in str(request.messages[0]["content"])


def list_noted_turns(play: CrashingSession) -> set[int]:
    """Return the turns whose calls all include the note; a turn with some is an error."""
    noted = {call.turn for call in play.calls if has_redaction_note(call)}
    assert all(has_redaction_note(call) for call in play.calls if call.turn in noted)
    return noted


def assert_noted_requests(play: CrashingSession, text: str) -> None:
    """Require the note in exactly the requests whose last message is `text`."""
    for request in play.house.model.requests:
        assert has_note(request) == (request.messages[-1]["content"] == text)


async def test_next_turn_includes_the_note_in_all_its_attempts_and_no_other_turn_does() -> None:
    play = await open_crashing_session()
    await play.answer_turn(FORBIDDEN)
    await play.submit_text("Two")
    play.house.model.scripts = [[DOWN], [DOWN], ["fine"]]
    await play.answer_turn()
    await play.submit_text("Three")
    play.house.model.scripts = [[DOWN], ["fine"]]
    await play.answer_turn()
    assert list_noted_turns(play) == {2}
    assert_noted_requests(play, "Two")
    assert len(play.house.model.requests) == 6


async def iterate_worker_deaths(*, tries: int) -> AsyncGenerator[tuple[int, CrashingSession]]:
    """Cancel the worker of turn 2 after each possible number of steps, and let another continue."""
    ended, step = False, 0
    while not ended:
        play = await open_crashing_session()
        await play.answer_turn(FORBIDDEN)
        await play.submit_text("Two")
        play.house.model.scripts = [[DOWN]] * (tries - 1)
        ended = await play.kill_after_steps(step)
        play.house.model.scripts = []
        await play.answer_turn()
        yield step, play
        step += 1


@pytest.mark.slow("whole sessions run on a service of their own")
@pytest.mark.parametrize("tries", [1, 2])
async def test_worker_crash_before_the_next_answer_neither_repeats_nor_loses_the_note(
    tries: int,
) -> None:
    steps = 0
    async for step, play in iterate_worker_deaths(tries=tries):
        await play.submit_text("Three")
        await play.answer_turn("fine")
        assert list_noted_turns(play) == {2}, step
        assert_noted_requests(play, "Two")
        steps = step
    assert steps > 20


@pytest.mark.slow("whole sessions run on a service of their own")
async def test_worker_crash_during_a_redaction_does_not_change_the_note() -> None:
    ended, step = False, 0
    while not ended:
        play = await open_crashing_session()
        play.house.model.scripts = [["Hm. ", FORBIDDEN]]
        ended = await play.kill_after_steps(step)
        await play.answer_turn("Hm. ", FORBIDDEN)
        for text in ("Two", "Three"):
            await play.submit_text(text)
            await play.answer_turn("fine")
        assert list_noted_turns(play) == {2}, step
        assert play.house.list_event_names().count("reply-redacted") == 1
        step += 1


async def test_debrief_after_a_withheld_reply_includes_the_note_despite_worker_crashes() -> None:
    ended, step = False, 0
    while not ended:
        play = await open_crashing_session(FORCED)
        await play.answer_turn(FORBIDDEN)
        ended = await play.kill_after_steps(step)
        await play.answer_turn("Now look.")
        assert list_noted_turns(play) == {2}, step
        assert {call.manifest.kind for call in play.calls if has_redaction_note(call)} == {
            "debrief"
        }
        step += 1


async def test_turn_that_fails_before_its_prompt_leaves_the_note_to_the_next_turn() -> None:
    play = await open_crashing_session()
    await play.answer_turn(FORBIDDEN)
    await play.submit_text("x" * 400_000)
    await play.answer_turn()
    assert play.house.list_event_names()[-1] == "turn-failed"
    await play.submit_text("Three")
    await play.answer_turn("fine")
    assert list_noted_turns(play) == {3}


async def test_reply_redacted_by_a_person_is_noted_even_after_a_later_failed_turn() -> None:
    play = await open_crashing_session()
    await play.answer_turn("fine")
    await play.submit_text("Two")
    await play.answer_turn(ModelFailure("unauthorised"))
    await play.send_command(RedactReply(1, "wrong", "operator", "(Withheld.)"))
    for text in ("Three", "Four"):
        await play.submit_text(text)
        await play.answer_turn("fine")
    assert list_noted_turns(play) == {3}


async def test_redaction_of_an_older_reply_adds_no_note() -> None:
    play = await open_crashing_session()
    await play.answer_turn("fine")
    await play.submit_text("Two")
    await play.answer_turn("fine")
    await play.send_command(RedactReply(1, "wrong", "operator", "(Withheld.)"))
    await play.submit_text("Three")
    await play.answer_turn("fine")
    assert list_noted_turns(play) == set()


async def test_superseding_call_includes_the_note_of_the_call_it_replaces() -> None:
    play = await open_crashing_session()
    await play.answer_turn("Hm.")
    await play.submit_text("Two")
    await play.answer_turn(FORBIDDEN)
    await play.submit_text("Three")
    assert not await play.kill_when(lambda: len(play.calls) == 3)
    await play.send_command(ExcludeTurn(1))
    await play.answer_turn("fine")
    assert [(call.call, call.supersedes) for call in play.calls][2:] == [
        ("3.1", None), ("3.2", "3.1"),
    ]  # fmt: skip
    assert list_noted_turns(play) == {3}
