"""An answer that is not the reply, read as what its call was made for: a plan, or a tactic."""

from __future__ import annotations

from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.tools import ToolsSpec
from turnlog.projections.session.commands import Spent
from turnlog.projections.session.turn_commands import AnswerCall
from turnlog.projections.tools.planning import Planned, plan_in
from turnlog.services.worker.attempt import Speaking
from turnlog.services.worker.model.exchange import Finished


def answering(speaking: Speaking, end: Finished, spent: Spent) -> AnswerCall:
    """Say what came of a call that a turn goes on from; raises `Unplanned` where it is no plan."""
    spec = speaking.material.blueprint.tools or ToolsSpec(servers={})
    return AnswerCall(
        speaking.attempt,
        speaking.text,
        end.finish_reason,
        spent,
        tools_in(end),
        speaking.offered,
        spec.most_calls,
        _planned(speaking, spec),
    )


def _planned(speaking: Speaking, spec: ToolsSpec) -> Planned | None:
    if speaking.stage != "plan":
        return None
    return plan_in(speaking.text, speaking.tools, spec.most_steps)


def tools_in(end: Finished) -> tuple[ToolRequest, ...]:
    """Give the tools an answer asked for, as they are recorded."""
    return tuple(
        ToolRequest(id=wanted.id, tool=wanted.name, arguments=wanted.arguments)
        for wanted in end.tool_calls
    )
