"""Parse an answer in the format that its call requires, repairing it if needed."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.projections.blueprint.schema.call_specs import OutputSpec
from turnlog.projections.blueprint.schema.tool_specs import ToolsSpec
from turnlog.projections.structured_output.json_repair import JsonSchema, validate_answer
from turnlog.projections.tools.parsed_plan import PLAN_SCHEMA, ParsedPlan, parse_plan
from turnlog.services.worker.attempts.active_attempt import ActiveAttempt

_ANY_PLAN = OutputSpec.model_validate({"schema": "plan"})


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """A parsed answer."""

    text: str
    repairs: tuple[str, ...] = ()
    planned: ParsedPlan | None = None
    """The steps of a plan; None if the call was not to plan."""


def parse_answer(speaking: ActiveAttempt) -> ParsedAnswer:
    """Parse an answer; raises `Unfit` if it does not have the required format."""
    spec = speaking.output_spec or (_ANY_PLAN if speaking.stage == "plan" else None)
    if spec is None:
        return ParsedAnswer(speaking.text)
    found = validate_answer(speaking.text, get_answer_schema(spec), repair=spec.repair)
    if speaking.stage != "plan":
        return ParsedAnswer(found.text, found.repairs)
    tools = speaking.material.blueprint.tools or ToolsSpec(servers={})
    plan = validate_answer(found.text, PLAN_SCHEMA)
    planned = parse_plan(plan, speaking.tools, tools.most_steps, speaking.prior_results)
    repairs = (*found.repairs, *plan.repairs, *planned.repairs)
    return ParsedAnswer(found.text, repairs, planned)


def get_answer_schema(spec: OutputSpec) -> JsonSchema:
    """Return the schema of an answer; a schema file has been loaded by then."""
    return spec.schema_ if isinstance(spec.schema_, dict) else PLAN_SCHEMA
