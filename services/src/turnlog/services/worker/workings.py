from __future__ import annotations

from turnlog.projections.blueprint.layer import ResultsLayer
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.tools.working import format_turn_work
from turnlog.projections.window.call import PromptNeeds
from turnlog.projections.window.hydrating import find_prior_results, label_results
from turnlog.projections.window.material import SessionMaterial
from turnlog.services.runtime.texts import TextReader


def list_prior_results(material: SessionMaterial, state: SessionState) -> dict[str, int]:
    """Return the results that the next call may reuse, each with its event sequence."""
    blueprint = material.blueprint
    layers = blueprint.calls[material.find_call_kind(state)].layers
    if not any(isinstance(blueprint.layers.get(name), ResultsLayer) for name in layers):
        return {}
    results = find_prior_results(material, state).results
    return {name: given.said.sequence for name, given in label_results(results)}


async def describe_turn_work(
    texts: TextReader, tenant: str, opened: OpenTurn, blueprint: Blueprint
) -> str | None:
    """Describe how a turn was worked out; None if no later prompt shows it."""
    if not opened.plan or not any(blueprint.resolve_view(name).of == "work" for name in blueprint.history):
        return None
    goals = [step.goal for step in opened.plan]
    results = [use.given.summary if use.given else use.said for use in opened.tools]
    told = [said for said in results if said]
    found = (await texts.fetch_texts(tenant, PromptNeeds((), (*goals, *told), needs_older_turns=False))).by_ref
    return format_turn_work([found[goal] for goal in goals], [found[said] for said in told])
