"""Children of a coordinator and webhooks: what selects the parent selects its children."""

from __future__ import annotations

from tests.agent_programs.agent_harness import AgentHarness
from tests.agent_programs.children.child_harness import (
    MemoryQueue,
    TeamHarness,
    TeamModel,
    build_team_blueprint,
)
from tests.support.sessions.session_harness import TENANT, TESTER
from turnlog.events.model.session_events import SessionOpened
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.session.commands import OpenSession
from turnlog.services.sessions.session_openings import SessionOpenings, SessionSelection


async def run_team_with_attributes() -> TeamHarness:
    """Open a session of a coordinator with an attribute, and run a turn that has two children."""
    agent = AgentHarness(kind=build_team_blueprint())
    agent.house.model = TeamModel()
    opening = OpenSession(
        blueprint=await agent.house.blueprints.store_blueprint(TENANT, agent.kind),
        profile=agent.kind.default_profile,
        reach=compute_history_reach(agent.kind),
        attributes={"desk": "d-1"},
    )
    await agent.house.sessions.handle(TENANT, "s", opening, TESTER)
    team = TeamHarness(agent, MemoryQueue(agent.house))
    await team.house.submit_turn("Is it so?")
    await team.queue.deliver_all(team.house.build_worker())
    return team


async def list_selected(team: TeamHarness, chosen: SessionSelection) -> set[str]:
    """Return the sessions that are selected."""
    openings = SessionOpenings(team.house.log)
    return {
        session
        for session in ("s", *team.list_children())
        if await openings.has_selected_session(TENANT, session, chosen)
    }


async def test_filter_by_blueprint_or_attribute_selects_children_with_their_parent() -> None:
    team = await run_team_with_attributes()
    everybody = {"s", *team.list_children()}
    assert len(everybody) == 3
    opened = team.house.list_events("s")[0].event
    assert isinstance(opened, SessionOpened)
    assert await list_selected(team, SessionSelection(blueprint=opened.blueprint.name)) == everybody
    assert await list_selected(team, SessionSelection(attributes={"desk": "d-1"})) == everybody
    assert await list_selected(team, SessionSelection(blueprint="another")) == set()
    assert await list_selected(team, SessionSelection(attributes={"desk": "d-2"})) == set()
