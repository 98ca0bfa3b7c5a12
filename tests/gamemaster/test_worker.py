"""A worker loads the inputs of a call once, from the record, for the right turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import JsonValue

from tests.gamemaster.table import COAST, ENTRY, GUARD, npcs
from tests.parts.house import BY, TENANT, House
from tests.parts.library import Library
from tests.parts.tales import GAME_MASTER
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.turn_events import TurnFailed, TurnReleased
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.library.segment_inputs import EditSegment
from turnlog.projections.session.commands import OpenSession, SubmitTurn
from turnlog.services.worker.model.model_types import ModelFailure


async def playing(**attributes: JsonValue) -> tuple[House, Library]:
    """Open a session with the coast segments in its library."""
    house = House()
    library = Library(house.segments, house.blobs)
    for row in COAST:
        await library.add(**row)  # type: ignore[arg-type]
    ref = await house.blueprints.store_blueprint(TENANT, GAME_MASTER)
    profile, width = GAME_MASTER.default_profile, compute_history_reach(GAME_MASTER)
    await house.sessions.handle(
        TENANT, "s", OpenSession(ref, profile, width, {**ENTRY, **attributes}), BY
    )
    return house, library


async def submitted(house: House, text: str, **inputs: JsonValue) -> RecordedEvent:
    """Submit a turn; gives its event."""
    command = SubmitTurn(text, GAME_MASTER.policies, inputs=inputs)
    done = await house.sessions.handle(TENANT, "s", command, BY)
    return done.events[-1]


def calls(house: House) -> Sequence[ContextAssembled]:
    events = (event.event for event in house.events())
    return [event for event in events if isinstance(event, ContextAssembled)]


def prompts(house: House) -> list[str]:
    return [str(request.messages[0]["content"]) for request in house.model.requests]


async def test_a_later_try_of_a_call_is_sent_the_same_whatever_the_library_says_by_then() -> None:
    house, library = await playing()
    gate = asyncio.Event()
    house.model.scripts = [[gate, ModelFailure("server_error", "busy", retry_after=0.0)], ["fine"]]
    event = await submitted(house, "I knock.", npcs=npcs((GUARD, 1)))
    answering = asyncio.create_task(house.answer(event))
    await house.recorded(ContextAssembled)
    await library.act(EditSegment(1, content="Tell it in verse."))
    gate.set()
    await answering
    first, second = prompts(house)
    assert first == second
    assert len(calls(house)) == 1
    house.model.scripts = [["fine"]]
    await house.answer(await submitted(house, "And again."))
    assert "Tell it in verse." in prompts(house)[-1]


async def test_a_turn_that_waited_brings_its_own_inputs() -> None:
    house, _ = await playing()
    gate = asyncio.Event()
    house.model.scripts = [[gate, "One."], ["Two."]]
    first = await submitted(house, "I knock.", game_state="It is night.")
    answering = asyncio.create_task(house.answer(first))
    await house.recorded(ContextAssembled)
    await submitted(house, "I wait.", game_state="It is day.")
    gate.set()
    await answering
    released = house.events()[-1]
    assert isinstance(released.event, TurnReleased)
    await house.answer(released)
    night, day = prompts(house)
    assert "It is night." in night
    assert "It is day." in day
    assert "It is night." not in day


async def test_a_turn_without_what_must_be_there_fails_before_a_model_is_asked() -> None:
    house, _ = await playing(ruleset="ruleset.none")
    await house.answer(await submitted(house, "Hm"))
    failed = house.events()[-1].event
    assert isinstance(failed, TurnFailed)
    assert (failed.code, failed.retryable) == ("segments-missing", False)
    assert house.model.requests == []
