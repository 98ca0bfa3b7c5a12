"""How an attempt can end, and what is recorded of it.

Whatever the outcome, the log records what the attempt took: under the claim while the attempt is
current, and as `attempt-ended` alone once another attempt holds the lease. The first functions turn
an outcome into a command. `OutcomeRecorder` appends it and decides what happens next.
"""

from __future__ import annotations

from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.tools import ToolsSpec
from turnlog.projections.session.commands import AttemptUsage
from turnlog.projections.session.turn_commands import AnswerCall
from turnlog.services.worker.attempt import ActiveAttempt
from turnlog.services.worker.model.exchange import FinishedAnswer
from turnlog.services.worker.understanding import ParsedAnswer


def build_answer_command(speaking: ActiveAttempt, end: FinishedAnswer, said: ParsedAnswer, spent: AttemptUsage) -> AnswerCall:
    """Build the command for an answer that is not the reply: a plan, or tool requests."""
    spec = speaking.material.blueprint.tools or ToolsSpec(servers={})
    return AnswerCall(
        speaking.attempt,
        speaking.text,
        end.finish_reason,
        spent,
        list_tool_requests(end),
        speaking.offered_tools,
        spec.most_calls,
        said.planned,
        said.repairs,
    )


def list_tool_requests(end: FinishedAnswer) -> tuple[ToolRequest, ...]:
    """Return the tools that an answer requests, as they are recorded."""
    return tuple(
        ToolRequest(id=wanted.id, tool=wanted.name, arguments=wanted.arguments)
        for wanted in end.tool_calls
    )
