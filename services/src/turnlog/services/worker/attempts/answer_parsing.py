"""Parse an answer into the form that its call requires, and say what is wrong with others.

The whole answer is here; nothing is recorded, and no rule of safety is asked.
"""

from __future__ import annotations

from typing import Final

from turnlog.projections.blueprint.schema.call_specs import OutputSpec
from turnlog.projections.blueprint.schema.tool_specs import ToolsSpec
from turnlog.projections.session.next_call import SIDE_STAGES
from turnlog.projections.session.open_turn import AnswerRejection
from turnlog.projections.session.rules.outcome_commands import AttemptAnswer
from turnlog.projections.structured_output.json_repair import InvalidAnswer, validate_answer
from turnlog.projections.structured_output.schema_repair import JsonSchema
from turnlog.projections.tools.parsed_plan import PLAN_SCHEMA, parse_plan
from turnlog.services.worker.attempts.active_attempt import ActiveAttempt, list_tool_requests
from turnlog.services.worker.model.model_types import FinishedAnswer

_PLAN_OUTPUT = OutputSpec.model_validate({"schema": "plan"})


def parse_answer(active: ActiveAttempt, end: FinishedAnswer) -> AttemptAnswer:
    """Parse an answer; raises `InvalidAnswer` if it does not have the required format."""
    text, tools = active.text, list_tool_requests(end)
    spec = find_output_spec(active)
    answer = AttemptAnswer(text=text, finish=end.finish_reason, tools=tools)
    is_free = active.stage in SIDE_STAGES or (active.stage == "loop" and answer.continues_turn)
    if spec is None or is_free:
        return answer
    found = validate_answer(text, get_answer_schema(spec), repair=spec.repairs_faults)
    if active.stage != "plan":
        return AttemptAnswer(
            text=found.text,
            finish=end.finish_reason,
            tools=tools,
            repairs=found.repairs,
            structured=True,
        )
    plan, setup = validate_answer(found.text, PLAN_SCHEMA), active.progress.setup
    planned = parse_plan(plan, setup.tools, get_max_steps(active), setup.prior_results)
    repairs = (*found.repairs, *plan.repairs)
    return AttemptAnswer(
        text=found.text, finish=end.finish_reason, tools=tools, plan=planned, repairs=repairs
    )


def find_output_spec(active: ActiveAttempt) -> OutputSpec | None:
    return active.output_spec or (_PLAN_OUTPUT if active.stage == "plan" else None)


def build_rejection(active: ActiveAttempt, fault: InvalidAnswer) -> AnswerRejection | None:
    """Return a rejected answer and what the model is told about it; None if it is empty."""
    spec = find_output_spec(active)
    if not active.text:
        return None
    is_told = spec is not None and spec.tells_faults
    return AnswerRejection(active.text, f"{CORRECTION}\n{fault}" if is_told else "")


CORRECTION: Final = (
    "This answer was not used, because it does not have the required form. Answer again, with "
    "the JSON alone. What is wrong with it:"
)
"""What a model is told about a rejected answer, before the rule that the answer breaks."""


def get_max_steps(active: ActiveAttempt) -> int:
    spec = active.material.blueprint.tools or ToolsSpec(servers={})
    return spec.most_steps


def get_answer_schema(spec: OutputSpec) -> JsonSchema:
    """Return the schema of an answer; a schema file has been loaded by then."""
    return spec.schema_ if isinstance(spec.schema_, dict) else PLAN_SCHEMA


def list_unoffered_tools(active: ActiveAttempt, answer: AttemptAnswer) -> str:
    """Name the tools that a reply consists of, if none of them was offered; otherwise nothing."""
    if active.stage != "reply" or answer.text.strip() or active.manifest is None:
        return ""
    offered = {part.layer for part in active.manifest.parts if part.role == "tools"}
    names = active.progress.setup.tools
    called = dict.fromkeys(names.get(each.tool, each.tool) for each in answer.tools)
    return "" if offered & called.keys() else ", ".join(repr(name[:80]) for name in called)
