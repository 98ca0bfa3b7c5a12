"""What a heartbeat says an attempt is doing while its model is silent."""

from __future__ import annotations

import pytest

from tests.support.sessions.session_harness import TENANT, SessionHarness
from turnlog.events.tokens import AttemptAlive
from turnlog.projections.session.next_call import CallStage
from turnlog.services.worker.attempts.active_attempt import CallSetup, SentCall, start_attempt
from turnlog.services.worker.model.model_types import ModelRequest
from turnlog.services.worker.turn_context import open_context


@pytest.mark.parametrize(
    ("stage", "doing"),
    [("reply", "think"), ("loop", "think"), ("plan", None), ("act", None), ("query", None)],
)
async def test_only_the_model_of_the_reply_is_reported_as_thinking(
    stage: CallStage, doing: str | None
) -> None:
    house = SessionHarness()
    await house.open_session()
    await house.submit_turn("Hi")
    state = await house.load_state()
    assert state.open is not None
    material = await house.blueprints.load_material(state)
    active = start_attempt(open_context(state, state.open, material), house.tokens)
    active.progress.setup = CallSetup(stage=stage)
    await active.publish_heartbeat()
    active.progress.sent = SentCall(active.attempt, ModelRequest(model="m", messages=()))
    await active.publish_heartbeat()
    stored = [each.event for each in await house.tokens.read_token_events(TENANT, "s", 1)]
    assert [each.doing for each in stored if isinstance(each, AttemptAlive)] == [None, doing]
