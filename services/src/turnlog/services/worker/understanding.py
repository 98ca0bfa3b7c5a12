"""Parse an answer in the format that its call requires, repairing it if needed."""

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
    """A parsed answer."""

    text: str
    repairs: tuple[str, ...] = ()
    planned: Planned | None = None
    """The steps of a plan; None if the call was not to plan."""


def understood(speaking: Speaking) -> Understood:
    """Parse an answer; raises `Unfit` if it does not have the required format."""
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
    """Return the schema of an answer; a schema file has been loaded by then."""
    return spec.schema_ if isinstance(spec.schema_, dict) else PLAN
