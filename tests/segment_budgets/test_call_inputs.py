"""A worker loads the inputs of a call once, from the record, for the right turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import JsonValue

from tests.segment_budgets.game_service import COAST_SEGMENTS, ENTRY, GUARD, build_npc_inputs
from tests.support.sessions.game_master_turns import GAME_MASTER
from tests.support.sessions.segment_harness import SegmentHarness
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.turn_events import TurnFailed, TurnReleased
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.library.segment_inputs import EditSegment
from turnlog.projections.session.commands import OpenSession, SubmitTurn
from turnlog.services.worker.model.model_types import ModelFailure


async def open_game_session(**attributes: JsonValue) -> tuple[SessionHarness, SegmentHarness]:
    """Open a session with the coast segments in its library."""
    house = SessionHarness()
    library = SegmentHarness(log=house.segments, blobs=house.blobs)
    for row in COAST_SEGMENTS:
        await library.add_segment(**row)  # type: ignore[arg-type]
    ref = await house.blueprints.store_blueprint(TENANT, GAME_MASTER)
    profile, width = GAME_MASTER.default_profile, compute_history_reach(GAME_MASTER)
    await house.sessions.handle(
        TENANT,
        "s",
        OpenSession(
            blueprint=ref, profile=profile, reach=width, attributes={**ENTRY, **attributes}
        ),
        TESTER,
    )
    return house, library


async def submit_turn(house: SessionHarness, text: str, **inputs: JsonValue) -> RecordedEvent:
    """Submit a turn; gives its event."""
    command = SubmitTurn(text=text, policies=GAME_MASTER.policies, inputs=inputs)
    done = await house.sessions.handle(TENANT, "s", command, TESTER)
    return done.events[-1]


def list_calls(house: SessionHarness) -> Sequence[ContextAssembled]:
    events = (event.event for event in house.list_events())
    return [event for event in events if isinstance(event, ContextAssembled)]


def list_prompts(house: SessionHarness) -> list[str]:
    return [str(request.messages[0]["content"]) for request in house.model.requests]


async def test_retried_call_sends_the_same_prompt_after_a_library_edit() -> None:
    house, library = await open_game_session()
    gate = asyncio.Event()
    house.model.scripts = [[gate, ModelFailure("server_error", "busy", retry_after=0.0)], ["fine"]]
    event = await submit_turn(house, "I knock.", npcs=build_npc_inputs((GUARD, 1)))
    answering = asyncio.create_task(house.run_turn(event))
    await house.wait_for_event(ContextAssembled)
    await library.handle_command(EditSegment(id=1, content="Tell it in verse."))
    gate.set()
    await answering
    first, second = list_prompts(house)
    assert first == second
    assert len(list_calls(house)) == 1
    house.model.scripts = [["fine"]]
    await house.run_turn(await submit_turn(house, "And again."))
    assert "Tell it in verse." in list_prompts(house)[-1]


async def test_queued_turn_uses_its_own_inputs() -> None:
    house, _ = await open_game_session()
    gate = asyncio.Event()
    house.model.scripts = [[gate, "One."], ["Two."]]
    first = await submit_turn(house, "I knock.", game_state="It is night.")
    answering = asyncio.create_task(house.run_turn(first))
    await house.wait_for_event(ContextAssembled)
    await submit_turn(house, "I wait.", game_state="It is day.")
    gate.set()
    await answering
    released = house.list_events()[-1]
    assert isinstance(released.event, TurnReleased)
    await house.run_turn(released)
    night, day = list_prompts(house)
    assert "It is night." in night
    assert "It is day." in day
    assert "It is night." not in day


async def test_turn_without_a_required_segment_fails_before_a_model_is_called() -> None:
    house, _ = await open_game_session(ruleset="ruleset.none")
    await house.run_turn(await submit_turn(house, "Hm"))
    failed = house.list_events()[-1].event
    assert isinstance(failed, TurnFailed)
    assert (failed.code, failed.retryable) == ("segments-missing", False)
    assert house.model.requests == []
