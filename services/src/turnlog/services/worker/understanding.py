"""An answer, understood: read by the form that its call wants, with what had to be mended in it."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.projections.blueprint.output import OutputSpec
from turnlog.projections.blueprint.tools import ToolsSpec
from turnlog.projections.structured.fitting import Schema, fitted
from turnlog.projections.tools.planning import PLAN, Planned, plan_in
from turnlog.services.worker.attempt import Speaking

_ANY_PLAN = OutputSpec.model_validate({"schema": "plan"})


@dataclass(frozen=True, slots=True)
class Understood:
    """What an answer says."""

    text: str
    repairs: tuple[str, ...] = ()
    planned: Planned | None = None
    """Its steps; none where it was not to plan."""


def understood(speaking: Speaking) -> Understood:
    """Read what was said; raises `Unfit` where it does not have the form that it must have."""
    spec = speaking.output or (_ANY_PLAN if speaking.stage == "plan" else None)
    if spec is None:
        return Understood(speaking.text)
    found = fitted(speaking.text, schema_of(spec), repair=spec.repair)
    if speaking.stage != "plan":
        return Understood(found.text, found.repairs)
    tools = speaking.material.blueprint.tools or ToolsSpec(servers={})
    plan = fitted(found.text, PLAN)
    planned = plan_in(plan, speaking.tools, tools.most_steps, speaking.given)
    repairs = (*found.repairs, *plan.repairs, *planned.repairs)
    return Understood(found.text, repairs, planned)


def schema_of(spec: OutputSpec) -> Schema:
    """Give the schema of an answer; a file has been read by the time anybody asks."""
    return spec.schema_ if isinstance(spec.schema_, dict) else PLAN
