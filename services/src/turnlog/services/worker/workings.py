from __future__ import annotations

from turnlog.projections.blueprint.layer import ResultsLayer
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.tools.working import worked
from turnlog.projections.window.call import Needs
from turnlog.projections.window.hydrating import hydration, named
from turnlog.projections.window.material import Material
from turnlog.services.runtime.texts import TextReader


def given_to(material: Material, state: SessionState) -> dict[str, int]:
    """Return the results that the next call may reuse, each with its event sequence."""
    blueprint = material.blueprint
    layers = blueprint.calls[material.call_kind(state)].layers
    if not any(isinstance(blueprint.layers.get(name), ResultsLayer) for name in layers):
        return {}
    results = hydration(material, state).results
    return {name: given.said.sequence for name, given in named(results)}


async def work_of(
    texts: TextReader, tenant: str, opened: OpenTurn, blueprint: Blueprint
) -> str | None:
    """Describe how a turn was worked out; None if no later prompt shows it."""
    if not opened.plan or not any(blueprint.view(name).of == "work" for name in blueprint.history):
        return None
    goals = [step.goal for step in opened.plan]
    results = [use.given.summary if use.given else use.said for use in opened.tools]
    told = [said for said in results if said]
    found = (await texts.fetch(tenant, Needs((), (*goals, *told), older=False))).said
    return worked([found[goal] for goal in goals], [found[said] for said in told])
